"""Costs of planning a flow in memory, for growing numbers of members: no database, no Temporal, no functions."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from bench.table import Scale, Table
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.merging import new_ledger, push
from crawler_lifecycle.flows.rules.plan import Plan
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import Ledger
from crawler_lifecycle.model.flow_states import EndKind, FlowState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST_AT_ONCE = 500  # starts in a plan, as a supervisor asks for them
WIDTH = 100  # members in a layer
DEPENDENCIES = 10  # for every member of a layer


def nothing() -> None:
    """Stand for a step; no benchmark calls the function."""


def chain(members: int) -> Workflow:
    workflow = Workflow().add("0", nothing)
    for number in range(1, members):
        workflow.add(str(number), nothing, deps=str(number - 1))
    return workflow


def fan(members: int) -> Workflow:
    workflow = Workflow().add("first", nothing).add_many("many", [nothing] * (members - 2), deps="first")
    return workflow.add("last", nothing, deps="many")


def layers(members: int) -> Workflow:
    workflow = Workflow()
    for number in range(members):
        layer, place = divmod(number, WIDTH)
        deps = [f"{layer - 1}-{(place + step) % WIDTH}" for step in range(DEPENDENCIES)] if layer else []
        workflow.add(f"{layer}-{place}", nothing, deps=deps)
    return workflow


SHAPES: dict[str, Callable[[int], Workflow]] = {
    "chain": chain,
    "fan-out and fan-in": fan,
    f"layers of {WIDTH}, {DEPENDENCIES} dependencies each": layers,
}


def measure(scale: Scale) -> Table:
    """Measure a push, the planner from rows, and all plans up to the flow's end."""
    columns = ("shape", "members", "push, ms", "planner from rows, ms", "all plans, ms", "longest plan, ms")
    return Table(columns, list(_rows(scale.jobs)))


def _rows(sizes: Iterable[int]) -> Iterator[tuple[object, ...]]:
    for name, shape in SHAPES.items():
        for members in sizes:
            definition = shape(members).definition()
            ledger = new_ledger(definition)
            began = time.perf_counter()
            push(ledger, definition, NOW).apply(ledger)
            pushed = time.perf_counter()
            planner = Planner(ledger)
            built = time.perf_counter()
            times = _to_the_end(planner, ledger)
            yield (
                name,
                members,
                *(1000 * seconds for seconds in (pushed - began, built - pushed, sum(times), max(times))),
            )


def _to_the_end(planner: Planner, ledger: Ledger) -> list[float]:
    """Let every attempt succeed, and return how long each plan took with the observations before."""
    times = []
    plan = Plan()
    while plan.flow_state is not FlowState.COMPLETED:
        began = time.perf_counter()
        for start in plan.starts:
            planner.observe(AttemptEnd(start.number, start.attempt, EndKind.COMPLETED, NOW))
        plan = planner.advance(NOW, MOST_AT_ONCE)
        times.append(time.perf_counter() - began)
        if plan.is_empty:
            raise AssertionError(f"{ledger.flow.id} does not end")
    return times
