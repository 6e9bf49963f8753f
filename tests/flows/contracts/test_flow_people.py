"""Two people, or a person and a host, act on a job in the same moment. Each act has an order, and is counted once.

Graphs 68. The acts start at a barrier, in threads with connections of their own, in many rounds.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.model.flow_states import FlowState
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow, pushed

ROUNDS = 20
Answer = TypeVar("Answer")
Act = Callable[[Flow], Answer]


@pytest.fixture
def flow(database: Database) -> Flow:
    return pushed(database, Workflow("w", id="w").add("a", plain).add("b", plain, deps="a"))


def at_once(flow: Flow, *acts: Act[Answer]) -> list[Answer]:
    """Let each act begin at the same moment. Return the answers in the order of the acts."""
    barrier = Barrier(len(acts))

    def run(act: Act[Answer]) -> Answer:
        own = Flow(flow.store, flow.id, flow.uid)
        barrier.wait(timeout=30)
        return act(own)

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def cancel(own: Flow) -> int:
    return own.cancel("a").count


def retry(own: Flow) -> int:
    return own.retry("a").count


def end(own: Flow, start: AttemptRef) -> int:
    return len(own.end(start, result="7"))


def test_two_cancels_and_two_retries_at_once_are_counted_once(flow: Flow) -> None:
    for number in range(1, ROUNDS + 1):
        assert sorted(at_once(flow, cancel, cancel)) == [0, 1], number
        assert flow.states["a"] == "cancelled"
        assert sorted(at_once(flow, retry, retry)) == [0, 1], number
        assert (flow.states["a"], flow.row("a").generation) == ("available", number + 1)
    assert flow.events == ["pushed", *["cancelled", "retried"] * ROUNDS], "a request without an effect leaves no line"


def test_a_cancel_and_a_retry_at_once_have_an_order(flow: Flow) -> None:
    orders = set()
    for number in range(ROUNDS):
        flow.cancel("a")
        before = len(flow.store.flow_records.lines(flow.id, after=0, limit=1000))
        retried, cancelled = at_once(flow, retry, cancel)
        lines = [line.event for line in flow.store.flow_records.lines(flow.id, after=0, limit=1000)[before:]]
        # the retry always has a cancelled job; a cancel before the retry finds an ended job, and counts none
        assert (retried, lines) == (1, ["retried", "cancelled"][: 1 + cancelled]), number
        assert flow.states["a"] == ("cancelled" if cancelled else "available")
        orders.add(cancelled)
        flow.retry("a")
    assert orders <= {0, 1}


def test_a_cancel_and_an_end_at_once_have_one_winner(database: Database) -> None:
    for number in range(ROUNDS):
        flow = pushed(database, Workflow(id=f"w{number}").add("a", plain))
        start = flow.start("a")
        assert flow.begin_steps(start).mine
        cancelled, _ = at_once(flow, cancel, partial(end, start=start))
        results = flow.store.flow_records.results(flow.id, [0])
        outcome = (flow.states["a"], cancelled, dict(results))
        assert outcome in (("completed", 0, {0: 7}), ("cancelled", 1, {})), number


def test_a_retry_and_the_end_of_a_flow_at_once_leave_an_open_flow(flow: Flow) -> None:
    """A supervisor closes the flow from a plan without the retry: the write is refused, or the retry opens the flow."""
    flow.cancel()
    flow.go_on()
    for number in range(ROUNDS):
        assert flow.store.flow_records.row(flow.id)[1].state is FlowState.CANCELLED, number
        flow.retry("b")
        flow.cancel("b")
        door = flow.door

        def close(own: Flow, door: int = door) -> int:
            own.ref = flow.ref
            return own.write(door=door, state=FlowState.CANCELLED) or 0

        retried, _ = at_once(flow, lambda own: own.retry("b").count, close)
        assert (retried, flow.store.flow_records.row(flow.id)[1].state) == (1, FlowState.EXECUTING), number
        flow.cancel("b")
        flow.go_on()
