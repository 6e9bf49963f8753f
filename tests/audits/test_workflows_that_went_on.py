from datetime import UTC, datetime

import pytest
from temporalio.api.history.v1 import (
    HistoryEvent,
    WorkflowExecutionSignaledEventAttributes,
    WorkflowTaskCompletedEventAttributes,
    WorkflowTaskTimedOutEventAttributes,
)

from crawler_lifecycle.audits.activities.auditing import failing_workflows
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.supervision import AuditedRun, WorkflowInfo
from crawler_lifecycle.temporal.engine import task_failure
from tests.kit.service.rig import NotedSupervisors

pytestmark = pytest.mark.regression(
    "A workflow that went on between its description and its history was reported as failing, on a busy machine"
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)
RUN = AuditedRun(
    run_id=7,
    run_uid="uid",
    crawler="books",
    status=RunStatus.PROCESSING,
    reason=None,
    workflow_id="crawl-7",
    supervisor_run_id="first",
    epoch=1,
    begun_at=NOW,
    finished_at=None,
    next_look_at=None,
    changed_at=NOW,
    export_state=None,
    end_number=0,
)
DONE = HistoryEvent(workflow_task_completed_event_attributes=WorkflowTaskCompletedEventAttributes())
TIMED_OUT = HistoryEvent(workflow_task_timed_out_event_attributes=WorkflowTaskTimedOutEventAttributes())
SIGNAL = HistoryEvent(workflow_execution_signaled_event_attributes=WorkflowExecutionSignaledEventAttributes())


class History(NotedSupervisors):
    """Supervisors whose description is older than their history."""

    def __init__(self, *latest_first: HistoryEvent) -> None:
        super().__init__()
        self.events = latest_first

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        return WorkflowInfo(is_open=True, task_attempt=3)

    async def task_failure(self, workflow_id: str) -> str | None:
        return task_failure(self.events)


async def test_a_workflow_that_went_on_is_not_failing() -> None:
    assert await failing_workflows(History(DONE, TIMED_OUT), [RUN]) == []


async def test_a_workflow_that_goes_on_failing_is_reported_also_behind_many_signals() -> None:
    for latest, words in (([TIMED_OUT, DONE], "the worker did not answer in time"), ([SIGNAL], "do not say why")):
        (finding,) = await failing_workflows(History(*latest), [RUN])
        assert finding.kind is FindingKind.WORKFLOW_FAILING
        assert words in finding.message
