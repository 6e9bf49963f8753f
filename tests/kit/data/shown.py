"""Records as the commands show them."""

from datetime import UTC, datetime
from typing import Any

from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import ExportRecord, RunDetails, RunRecord, TaskRecord
from crawler_lifecycle.model.requests import KeptRequest
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus, TaskStatus, Trigger

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def a_task(number: int, status: TaskStatus, **more: Any) -> TaskRecord:
    nothing = {name: None for name, field in TaskRecord.model_fields.items() if field.is_required()}
    known = {"task": number, "attempt": 1, "status": status, "queued_at": NOW, "restarts": 0, "events": []}
    return TaskRecord(**nothing | known | more)


def a_run(status: RunStatus, *tasks: TaskStatus, exports: list[ExportRecord] | None = None, **more: Any) -> RunDetails:
    nothing = {name: None for name, field in RunRecord.model_fields.items() if field.is_required()}
    known = {
        "run_id": 7, "run_uid": "u", "crawler": "shop", "trigger": Trigger.API, "cluster": "default", "status": status,
        "intent": Intent.RUN, "tasks": {each: tasks.count(each) for each in tasks}, "created_at": NOW, "begun_at": NOW,
        "changed_at": NOW, "priority": 0,
        "end_number": 0,
        "installation": "i", "epoch": 1, "workflow_id": "w", "first_execution_run_id": "f", "nudge_sent": 0,
        "nudge_acknowledged": 0, "request": KeptRequest(crawler="shop"), "entry": Crawler(name="shop"),
    }  # fmt: skip
    rows = [a_task(number, each) for number, each in enumerate(tasks)]
    return RunDetails(run=RunRecord(**nothing | known | more), tasks=rows, log=[], exports=exports or [])


def an_export(state: ExportState) -> ExportRecord:
    return ExportRecord(
        event_id="e", kind="files_ready", state=state, location=None, problem=None, created_at=NOW, finished_at=None
    )
