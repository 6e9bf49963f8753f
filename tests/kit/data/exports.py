"""Events of exports."""

from uuid import uuid4

from crawler_lifecycle.model.notices import ExportEvent
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportKind, RunStatus


def event_of(run: RunRecord, kind: ExportKind = ExportKind.RUN_ENDED) -> ExportEvent:
    return ExportEvent(
        event_id=str(uuid4()),
        kind=kind,
        run_id=run.run_id,
        run_uid=run.run_uid,
        crawler=run.crawler,
        status=RunStatus.COMPLETED,
        reason="all_succeeded",
        tasks=run.tasks,
        supporting_files=f"s3://bucket/{run.run_uid}.zip",
        at=run.created_at,
    )
