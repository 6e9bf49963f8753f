"""Graphs of 10,000 jobs or edges, planned to their ends by the planner alone. The work is counted, not timed."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.merging import new_ledger, push
from crawler_lifecycle.flows.rules.network import Node
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import Ledger
from crawler_lifecycle.flows.rules.turns import Line
from crawler_lifecycle.model.flow_states import EndKind, FlowState, MemberState
from tests.flows.plays import NOW
from tests.kit.authors.work import plain

JOBS = 10_000
SIDE = 100  # jobs on each side of the bipartite graph, with an edge for each pair


@dataclass
class Course:
    """The course of a flow that the planner has planned to its end."""

    state: FlowState | None
    waves: list[list[int]]  # numbers of the members that start together
    planner: Planner
    calls: Counter[str]

    @property
    def started(self) -> list[int]:
        return [number for wave in self.waves for number in wave]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the changes of nodes, the members that the planner looks at, the choices of turns, and the plans."""
    counter: Counter[str] = Counter()
    methods = {"nodes": (Node, "count"), "members": (Planner, "_standing"), "turns": (Line, "_first")}
    for key, (owner, name) in {**methods, "plans": (Planner, "advance")}.items():
        monkeypatch.setattr(owner, name, _counting(getattr(owner, name), counter, key))
    return counter


def _counting(original: Callable[..., Any], counter: Counter[str], key: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        counter[key] += 1
        return original(*args, **kwargs)

    return call


def ledger_of(workflow: Workflow) -> Ledger:
    definition = workflow.definition()
    ledger = new_ledger(definition)
    push(ledger, definition, NOW).apply(ledger)
    return ledger


def planned(workflow: Workflow, calls: Counter[str], failing: frozenset[int] = frozenset()) -> Course:
    """Plan until nothing starts any more. The members of a wave end together, the failing ones in failure."""
    planner = Planner(ledger_of(workflow))
    calls.clear()
    waves: list[list[int]] = []
    while True:
        plan = planner.advance(NOW)
        if not plan.starts:
            return Course(plan.flow_state, waves, planner, calls)
        waves.append([start.number for start in plan.starts])
        for start in plan.starts:
            kind = EndKind.FAILED if start.number in failing else EndKind.COMPLETED
            planner.observe(AttemptEnd(start.number, start.attempt, kind, NOW))


def chain() -> Workflow:
    workflow = Workflow(id="chain").add("0", plain)
    for at in range(1, JOBS):
        workflow.add(str(at), plain, deps=str(at - 1))
    return workflow


def fan_out() -> Workflow:
    return Workflow(id="out").add("a", plain).add_many("m", [plain] * (JOBS - 1), deps="a")


def fan_in() -> Workflow:
    return Workflow(id="in").add_many("m", [plain] * (JOBS - 1)).add("z", plain, deps="m")


def bipartite() -> Workflow:
    workflow, sources = Workflow(id="pairs"), [f"left-{number}" for number in range(SIDE)]
    for name in sources:
        workflow.add(name, plain)
    for number in range(SIDE):
        workflow.add(f"right-{number}", plain, deps=sources)
    return workflow


def edges(workflow: Workflow) -> int:
    return sum(len(member.needs) for member in workflow.definition().members)


SHAPES: list[Any] = [
    pytest.param(chain, [1] * JOBS, marks=pytest.mark.sequences),
    (fan_out, [1, JOBS - 1]),
    pytest.param(fan_in, [JOBS - 1, 1], marks=pytest.mark.sequences),
    (bipartite, [SIDE, SIDE]),
]


@pytest.mark.parametrize(("shape", "waves"), SHAPES)
@pytest.mark.long
def test_each_job_of_a_large_graph_starts_once_and_in_its_wave(
    shape: Callable[[], Workflow], waves: list[int], calls: Counter[str]
) -> None:
    course = planned(shape(), calls)
    assert course.state is FlowState.COMPLETED
    assert [len(wave) for wave in course.waves] == waves
    assert course.started == list(range(sum(waves))), "each once, dependencies first, in the order of the insertion"
    assert {row.state for row in course.planner.rows.values()} == {MemberState.COMPLETED}
    assert calls["plans"] == len(waves) + 1, "no plan is in vain"


@pytest.mark.parametrize(("shape", "waves"), SHAPES)
@pytest.mark.long
def test_the_work_for_a_large_graph_is_in_proportion_to_its_jobs_and_edges(
    shape: Callable[[], Workflow], waves: list[int], calls: Counter[str]
) -> None:
    workflow = shape()
    size = sum(waves) + edges(workflow)
    planned(workflow, calls)
    # a member's value changes when it starts and when it ends, and each change reaches the nodes behind it once
    assert calls["nodes"] <= 5 * size
    assert calls["members"] <= 2 * sum(waves)
    assert calls["turns"] <= 6 * sum(waves)


def test_the_bipartite_graph_has_ten_thousand_edges_and_waits_for_each(calls: Counter[str]) -> None:
    assert edges(bipartite()) == SIDE * SIDE
    planner = Planner(ledger_of(bipartite()))
    starts = planner.advance(NOW).starts
    for start in starts[:-1]:
        planner.observe(AttemptEnd(start.number, start.attempt, EndKind.COMPLETED, NOW))
        assert not planner.advance(NOW).starts, "the last dependency is open"
    planner.observe(AttemptEnd(starts[-1].number, starts[-1].attempt, EndKind.COMPLETED, NOW))
    assert len(planner.advance(NOW).starts) == SIDE


def numbers(course: Course, state: MemberState) -> Iterator[int]:
    return (number for number, row in course.planner.rows.items() if row.state is state)


@pytest.mark.parametrize(
    ("shape", "failing", "cancelled"),
    [
        pytest.param(chain, 4_999, JOBS - 5_000, marks=pytest.mark.sequences),
        (fan_out, 0, JOBS - 1),
        pytest.param(fan_in, 77, 1, marks=pytest.mark.sequences),
        (bipartite, 5, SIDE),
    ],
)
@pytest.mark.long
def test_a_failure_cancels_the_jobs_behind_it_alone(
    shape: Callable[[], Workflow], failing: int, cancelled: int, calls: Counter[str]
) -> None:
    course = planned(shape(), calls, frozenset({failing}))
    assert course.state is FlowState.DISCARDED
    assert list(numbers(course, MemberState.DISCARDED)) == [failing]
    assert len(list(numbers(course, MemberState.CANCELLED))) == cancelled
    assert len(course.started) == len(set(course.started)) == len(course.planner.rows) - cancelled
