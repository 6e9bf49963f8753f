"""Old runs, and passes that remove them."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from sqlalchemy import insert, select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import audit_findings, histories
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportState, RunStatus
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.retention.model import Ages, Folders, PassReport
from crawler_lifecycle.retention.passes import Retention
from crawler_lifecycle.retention.store import RetentionStore
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.exports import event_of

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=400)
YEAR = timedelta(days=365)
CUTOFF = NOW - YEAR
Old = Callable[..., RunRecord]


def old_runs(database: Database, make_run: MakeRun) -> Old:
    """Return a function for runs that ended long ago, with a DONE export. Further values go to the run's row."""

    def make(tasks: int = 1, **values: Any) -> RunRecord:
        run = make_run(tasks)
        store = SqlStore(database)
        event = event_of(run)
        store.runs.open_export(ref_to(run), event)
        store.runs.settle_export(ref_to(run), event.event_id, ExportState.DONE, "there", None)
        ended: dict[str, Any] = {
            **{"status": RunStatus.COMPLETED, "end_number": 1, "export_state": ExportState.DONE},
            **{"created_at": LONG_AGO, "finished_at": LONG_AGO},
        }
        with database.transaction() as tx:
            tx.execute(update(histories).where(histories.c.id == run.run_id).values(ended | values))
        return run

    return make


def ids(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.scalars(select(histories.c.id).order_by(histories.c.id)))


def retention(
    database: Database, folder: Path, *, jobs: tuple[str, ...] = (), store: RetentionStore | None = None, **ages: Any
) -> Retention:
    listed = [[ListedJob(uid, run_uid=uid, key=(0, 1), made_at=None) for uid in jobs]]
    kept = {"runs": YEAR, "flows": YEAR, "logs": timedelta(days=30), "archives": None, "lines": None, **ages}
    return Retention(
        store=store or RetentionStore(database),
        flows=SqlStore(database).flow_doors,
        cluster=lambda: cast("Cluster", SimpleNamespace(inventory=lambda: iter(listed))),
        ages=Ages(**kept),
        folders=Folders(folder / "files", folder / "jobs", folder / "exports"),
        holder="me",
        factor=0,
    )


def passed(job: Retention) -> PassReport:
    report = job.make_pass(threading.Event())
    assert report is not None
    return report


def open_finding(database: Database, run: RunRecord) -> None:
    row = {
        **{"kind": FindingKind.UNDELIVERED, "subject": run.run_uid, "run_uid": run.run_uid, "message": "m"},
        **{"first_seen_at": NOW, "last_seen_at": NOW, "last_seen_by": str(uuid4()), "acts": 0},
    }
    with database.transaction() as tx:
        tx.execute(insert(audit_findings), row)
