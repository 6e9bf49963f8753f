"""`flow show`, `flow watch` and the page said "closed: finished" for a manager that people had retried.

An explanation named neither the breaker's key nor the end of a pause.
"""

from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.requests import RetryItems
from crawler_lifecycle.flows.model.turns import BREAKERS, HELD, OURS, Effects
from crawler_lifecycle.flows.rules.managers import explained, manager_explained
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.model.flow_states import FlowIntent
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.managers import MANAGER, Managed, item, managed
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    '`flow show`, `flow watch` and the page said "closed: finished" for a manager that people had retried'
)

HOUR = timedelta(hours=1)


@pytest.fixture
def flow(stored_in: Database) -> Managed:
    return managed(stored_in)


def status(flow: Managed) -> ManagerStatus:
    (manager,) = flow.store.manager_doors.statuses(flow.id)
    return manager


def explanation(flow: Managed) -> Why:
    return manager_explained(status(flow), Why(path="manager", state="executing"), FlowIntent.RUN)


def test_a_retry_makes_the_close_void(flow: Managed, crawlctl: Crawlctl) -> None:
    flow.commit(item("a"))
    flow.ended_run(flow.started(1), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    assert (status(flow).close_reason, status(flow).closed_at is None) == ("finished", False)
    flow.end(flow.last("manager"))
    while not flow.go_on().is_empty:
        pass
    assert "m:Shops  closed: finished" in crawlctl("flow", "show", flow.id).stdout
    flow.store.manager_doors.retry_items(flow.id, RetryItems(numbers=(1,)))
    assert (status(flow).close_reason, status(flow).closed_at) == (None, None)
    assert "m:Shops  closed" not in crawlctl("flow", "show", flow.id).stdout
    flow.go_on()
    flow.managers.begin(ManagerRef(flow.uid, MANAGER, 2, "host"), "child-2")
    assert (status(flow).close_reason, status(flow).closed_at) == (None, None)


def test_a_breaker_is_named_with_the_end_of_its_pause(flow: Managed) -> None:
    now = flow.store.managers._db.clock()  # type: ignore[attr-defined]
    held: dict[str, Any] = {
        "{spider} books": [(now + HOUR).timestamp(), "books"],
        "{spider} old": [(now - HOUR).timestamp(), "old"],
    }
    flow.commit(item("a"), state={OURS: {BREAKERS: {HELD: held}}})
    flow.managers.delay(flow.mine, [1])
    delayed = explanation(flow)
    assert delayed.cause is not None
    assert "a breaker (of books)" in delayed.cause
    assert delayed.until == status(flow).held["books"]
    (record,) = flow.store.manager_doors.items(flow.id, limit=1)
    assert "a breaker (of books)" in str(explained(record, status(flow), FlowIntent.RUN).cause)


def test_a_pause_before_a_next_attempt_has_an_end(flow: Managed) -> None:
    flow.commit(item("a"))
    flow.ended_run(flow.started(1), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD, delay_seconds=3600)
    paused = explanation(flow)
    assert str(paused.cause).startswith("pause: 1 item")
    assert paused.until == status(flow).next_attempt_at
    assert paused.until is not None
