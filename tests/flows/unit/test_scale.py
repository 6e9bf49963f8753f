"""The planner's work grows with jobs and edges, not with their product. Work is counted here; times are in bench."""

from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow, any_of
from crawler_lifecycle.flows.rules.network import Network, Node
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.turns import Line
from crawler_lifecycle.model.flow_states import FlowState
from tests.flows.plays import Play
from tests.kit.authors.work import plain
from tests.kit.samples import few


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the changes of nodes, and the members that the planner looks at."""
    counts = {"nodes": 0, "members": 0, "turns": 0}

    def counting(owner: type, name: str, key: str) -> None:
        original = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            counts[key] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    counting(Node, "count", "nodes")
    counting(Planner, "_standing", "members")
    counting(Line, "_first", "turns")
    return counts


def chain(number: int) -> Workflow:
    workflow = Workflow().add("0", plain)
    for at in range(1, number):
        workflow.add(str(at), plain, deps=str(at - 1))
    return workflow


def fan(number: int) -> Workflow:
    return Workflow().add("a", plain).add_many("m", [plain] * number, deps="a").add("z", plain, deps="m")


def capped(number: int) -> Workflow:
    return Workflow(max_parallel=7).add_many("m", [plain] * number, max_parallel=3).add_many("n", [plain] * number)


def quorum(number: int) -> Workflow:
    return Workflow().add_many("m", [plain] * number).add("z", plain, deps=any_of("m", at_least=0.9))


def grid(number: int) -> Workflow:
    """Give every job of a layer ten dependencies in the layer before."""
    workflow, width = Workflow(), 20
    for at in range(number):
        layer, place = divmod(at, width)
        deps = [f"{layer - 1}-{(place + step) % width}" for step in range(10)] if layer else []
        workflow.add(f"{layer}-{place}", plain, deps=deps)
    return workflow


@pytest.mark.parametrize("shape", few([chain, fan, capped, quorum, grid], [chain, grid], pytest.mark.long))
def test_ten_times_the_jobs_are_ten_times_the_work(shape: Any, counted: dict[str, int]) -> None:
    works = []
    for number in (100, 1_000):
        counted.update(nodes=0, members=0, turns=0)
        assert Play(shape(number)).run() is FlowState.COMPLETED
        works.append(dict(counted))
    small, large = works
    for key, count in large.items():
        assert count <= 12 * small[key] + 100, key


@pytest.mark.long
def test_the_end_of_one_job_among_ten_thousand_looks_at_its_dependents_only(counted: dict[str, int]) -> None:
    play = Play(fan(9_998))
    play.advance()
    play.end("a")
    play.advance()
    counted.update(nodes=0, members=0, turns=0)
    play.end("m/5000")
    play.advance()
    assert counted["members"] == 1  # the job itself
    assert counted["nodes"] <= 10


def test_a_network_changes_a_node_once_for_a_value() -> None:
    network, source, target = Network(), Node(), Node(member=1)
    network.connect(source, target)
    network.touched.clear()
    network.set(source, source.value)
    assert not network.touched
