from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.rules.messages import AttemptRef, CheckStarts, CrawlsStarted, StartCrawls, StartsChecked
from crawler_lifecycle.flows.store.crawls import FlowCrawls
from crawler_lifecycle.model.supervision import WorkflowInfo
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.flows import BOOKS, Flow, pushed
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "A crawl's attempt was refused although its run was there: the run went on, and its flow went on without the run"
)


@pytest.fixture
def flow(rig: Rig) -> Flow:
    return pushed(rig.database, Workflow().add("known", crawl("books")))


def start(rig: Rig, flow: Flow) -> CrawlsStarted:
    row = flow.row("known")
    ref = AttemptRef(number=row.number, generation=row.generation, attempt=1)
    return rig.do(rig.flow_crawls.start_crawls, StartCrawls(flow=flow.flow, door=1, starts=(ref,)))


def make_run(rig: Rig, flow: Flow) -> None:
    (workflow_id, request) = rig.supervisors.started[0]
    rig.store.runs.create(NewRun(request, BOOKS, 1, workflow_id, "first"))


def is_under_way(flow: Flow) -> bool:
    (attempt,) = flow.store.flow_records.attempts(flow.id, 0)
    return attempt.run_id is not None and attempt.ended_at is None


def test_a_repeated_start_does_not_refuse_a_run_when_the_catalogue_has_lost_the_crawler(rig: Rig, flow: Flow) -> None:
    start(rig, flow)
    make_run(rig, flow)
    del rig.deployer.scripts["books"]
    assert start(rig, flow).ends == ()
    assert is_under_way(flow)


def test_a_run_between_the_last_reading_and_the_refusal_counts(
    rig: Rig, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(rig, flow)
    workflow_id = rig.supervisors.started[0][0]
    rig.supervisors.described[workflow_id] = WorkflowInfo(is_open=False, end="terminated")
    end_attempts = FlowCrawls.end_attempts

    def late(*given: Any) -> Any:
        make_run(rig, flow)
        return end_attempts(*given)

    monkeypatch.setattr(FlowCrawls, "end_attempts", late)
    before = datetime.now(UTC) + timedelta(minutes=1)
    assert rig.do(rig.flow_crawls.check_starts, CheckStarts(flow=flow.flow, before=before)) == StartsChecked()
    assert is_under_way(flow)
