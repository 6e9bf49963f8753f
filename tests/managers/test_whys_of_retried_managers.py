import json
from typing import Any

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.commands.members import with_managers
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.requests import PushFlow, RetryItems
from crawler_lifecycle.flows.model.turns import Effects
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.model.flow_states import FlowIntent
from crawler_lifecycle.model.manager_items import Verdict
from crawler_lifecycle.model.states import RunStatus
from tests.flows.plays import NOW
from tests.kit.data.flows import Flow
from tests.kit.data.managers import MANAGER, Managed, item, managed
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    '`flow why` said "closed" for a manager that people had retried, and `no_host` whatever held a manager back'
)

NO_HOST = "no_host: no running host has loaded the manager m:Shops: start `crawlctl up --flows FILE`"
CLOSED = "closed: finished"


@pytest.fixture
def closed(stored_in: Database) -> Managed:
    """A manager that has closed after a failed item, and whose process has not ended yet."""
    flow = managed(stored_in)
    flow.commit(item("a"))
    flow.ended_run(flow.started(1), RunStatus.FAILED)
    flow.react(flow.ended()[0], Verdict.BAD)
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    return flow


def why(crawlctl: Crawlctl, flow: Flow, job: str = "manager") -> Any:
    result = crawlctl("flow", "why", flow.id, job, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_retried_manager_waits_for_a_host(closed: Managed, crawlctl: Crawlctl) -> None:
    assert (why(crawlctl, closed)["state"], why(crawlctl, closed)["cause"]) == ("executing", CLOSED)
    closed.end(closed.last("manager"))
    while not closed.go_on().is_empty:
        pass
    assert (why(crawlctl, closed)["state"], why(crawlctl, closed)["cause"]) == ("completed", CLOSED)
    closed.store.manager_doors.retry_items(closed.id, RetryItems(numbers=(1,)))
    assert (why(crawlctl, closed)["state"], why(crawlctl, closed)["cause"]) == ("available", NO_HOST)
    assert NO_HOST in crawlctl("flow", "why", closed.id).stdout
    closed.store.step_ledger.note_cause(closed.uid, [MANAGER], "unknown_step")
    assert why(crawlctl, closed)["cause"] == "unknown_step"
    closed.go_on()
    closed.managers.begin(ManagerRef(closed.uid, MANAGER, 2, "host"), "child-2")
    assert why(crawlctl, closed)["cause"].startswith("turn: 1 item may start")


def test_a_manager_behind_its_former_attempt_says_so(closed: Managed, crawlctl: Crawlctl) -> None:
    closed.cancel("manager")
    closed.retry("manager")
    assert (why(crawlctl, closed)["state"], why(crawlctl, closed)["cause"]) == ("available", "settling")


def test_a_manager_behind_the_limit_of_its_flow_says_so(stored: SqlStore, crawlctl: Crawlctl) -> None:
    work = StepWork(function="m:Shops", form=CallForm.MANAGER)
    members = (MemberDefinition(path="first", work=work), MemberDefinition(path="second", work=work))
    definition = FlowDefinition(id="two", name="two", family="shops", members=members, max_parallel=1)
    answer = stored.flow_doors.push(PushFlow(definition=definition))
    flow = Flow(stored, answer.flow_id, answer.flow_uid)
    flow.go_on()
    assert why(crawlctl, flow, "first")["cause"] == NO_HOST
    assert why(crawlctl, flow, "second")["cause"] == "parallel_limit"


@pytest.mark.parametrize(("state", "cause"), [("scheduled", "time"), ("retryable", "retry_pause")])
def test_a_manager_before_its_next_attempt_keeps_the_explanation_for_its_job(state: str, cause: str) -> None:
    status = ManagerStatus(path="m", function="m:Shops", incarnation=1)
    own = Why(path="m", state=state, cause=cause, since=NOW, until=NOW)
    assert with_managers(own, {"m": status}, FlowIntent.RUN, lambda _: ()) == own
