import json
from datetime import timedelta
from typing import Any

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.errors import PermanentError, TemporaryError
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.processes import starts as flow_starts
from crawler_lifecycle.flows.processes.starts import FlowStarts
from tests.kit.authors.work import plain
from tests.kit.data.flows import Flow
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A flow that was pushed while Temporal was away waited for the next audit, and `why` said that a host was missing"
)


class Supervisors:
    """Temporal, which may be away."""

    def __init__(self) -> None:
        self.nudged: list[str] = []
        self.is_away = False
        self.bad_flow = ""

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None:
        del flow_uid
        if flow_id == self.bad_flow:
            raise PermanentError("the workflow of its ID has another type")
        if self.is_away:
            raise TemporaryError("Temporal does not answer")
        self.nudged.append(flow_id)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a start has no use for {name}")


@pytest.fixture
def flow(stored: SqlStore) -> Flow:
    return pushed(stored, "late")


def pushed(store: SqlStore, flow_id: str) -> Flow:
    definition = Workflow(id=flow_id).add("a", plain).add("b", plain, deps="a").definition()
    answer = store.flow_doors.push(PushFlow(definition=definition))
    return Flow(store, answer.flow_id, answer.flow_uid)


async def test_a_worker_starts_flows_that_no_workflow_has_taken_up(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisors = Supervisors()
    starts = FlowStarts(flow.store.flow_records, supervisors, pause=15)
    await starts.search()
    assert not supervisors.nudged, "the push's own nudge comes first"
    monkeypatch.setattr(flow_starts, "PATIENCE", timedelta(0))
    supervisors.is_away = True
    with pytest.raises(TemporaryError):
        await starts.search()
    supervisors.is_away = False
    await starts.search()
    assert supervisors.nudged == ["late"]
    flow.go_on()
    await starts.search()
    assert supervisors.nudged == ["late"], "a workflow has taken the flow up"


async def test_a_flow_that_cannot_be_started_does_not_block_younger_flows(
    stored: SqlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error for one flow ended the search, so that all flows behind it waited for ever."""
    for name in ("bad", "good"):
        pushed(stored, name)
    monkeypatch.setattr(flow_starts, "PATIENCE", timedelta(0))
    supervisors = Supervisors()
    supervisors.bad_flow = "bad"
    await FlowStarts(stored.flow_records, supervisors, pause=15).search()
    assert supervisors.nudged == ["good"]
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("flow bad cannot be started")


def test_why_names_the_missing_supervisor(flow: Flow, crawlctl: Crawlctl) -> None:
    assert why(crawlctl, flow, "a")["cause"] == "no_supervisor"
    for behind in (why(crawlctl, flow), why(crawlctl, flow, "b")):
        assert behind["because"][0]["cause"] == "no_supervisor"
    flow.go_on()
    assert why(crawlctl, flow, "a")["cause"] == "executing"


def why(crawlctl: Crawlctl, flow: Flow, *job: str) -> Any:
    return json.loads(crawlctl("flow", "why", flow.id, *job, "--json").stdout)
