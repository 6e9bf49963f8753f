"""Costs of an audit of runs: statements, time and memory, for growing numbers of open runs.

The activity runs page by page over a real database. A stand-in for Temporal lists the workflows of most runs as open
and does not know the remaining workflows.
"""

import asyncio
import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import Mock
from uuid import uuid4

from sqlalchemy import insert, select
from temporalio.testing import ActivityEnvironment

from bench.databases import Row, on_each
from bench.measuring import Ledger
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.activities.runs import RunAudit
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.audits import AuditPart, AuditRef, AuditStep, PartReport
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, WorkflowInfo
from crawler_lifecycle.runs.ports import NewRun

LOST = 100  # runs without a workflow in every audit except the first
AT_ONCE = AuditPatience(workflow=timedelta())
ROWS = 1000


class Temporal:
    """Stand-in for Temporal: lists every workflow as open except for the lost workflows."""

    def __init__(self, lost: Sequence[str]) -> None:
        self._lost = set(lost)
        self.asked = self.resumed = 0

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        self.asked += -(-len(workflow_ids) // 100)
        return set(workflow_ids) - self._lost

    async def describe(self, _workflow_id: str) -> WorkflowInfo:
        return WorkflowInfo(is_open=False, end="missing")

    async def task_failure(self, workflow_id: str) -> str | None:
        raise AssertionError(f"{workflow_id} fails no task")

    async def requested_run_id(self, workflow_id: str) -> int | None:
        raise AssertionError(f"{workflow_id} has not ended well")

    async def go_on(self, run: RunRecord | AuditedRun, *, reopen: bool = False) -> None:
        assert not reopen
        self.resumed += 1
        self._lost.discard(run.workflow_id)

    async def cancel(self, workflow_id: str, _temporal_run_id: str) -> None:
        raise AssertionError(f"an audit cancels nothing, and nothing of {workflow_id}")


def measure(scale: Scale) -> Table:
    columns = ("open runs", "of which lost", "pages", "statements", "lists of Temporal", "ms", "peak MB")
    return on_each(columns, partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    count = 0
    for runs in scale.audited:
        make_runs(database, runs - count)
        count = runs
        for lost in (0, min(LOST, runs // 2)):
            yield runs, lost, *_audit(database, lost)


def make_runs(database: Database, runs: int) -> None:
    """Copy a run many times, with new ids."""
    entry = Crawler(name="books", command=["true"])
    new = NewRun(RunRequest(crawler="books"), entry, 1, f"crawl-books-{uuid4()}", str(uuid4()))
    run = SqlStore(database).runs.create(new)
    with database.read() as connection:
        row = connection.execute(select(histories).where(histories.c.id == run.run_id)).one()
    like = {name: value for name, value in row._mapping.items() if name != "id"}
    for start in range(1, runs, ROWS):
        copies = [_copy(like) for _ in range(min(ROWS, runs - start))]
        with database.transaction() as connection:
            connection.execute(insert(histories), copies)


def _copy(like: dict[str, object]) -> dict[str, object]:
    workflow_id = f"crawl-books-{uuid4()}"
    ids = {"workflow_id": workflow_id, "supervisor_workflow_id": workflow_id, "first_execution_run_id": str(uuid4())}
    return like | ids | {"run_uid": str(uuid4())}


def _audit(database: Database, lost: int) -> tuple[object, ...]:
    with database.read() as connection:
        ids = list(connection.scalars(select(histories.c.workflow_id).order_by(histories.c.id).limit(lost)))
    ledger, temporal = Ledger(database), Temporal(ids)
    with ledger.spent():
        pages, report = asyncio.run(_pages(database, temporal))
    assert report.acted == temporal.resumed == lost, report
    peak = _peak(database, ids) if lost else "-"
    return pages, ledger.statements, temporal.asked, ledger.milliseconds, peak


def _peak(database: Database, lost: Sequence[str]) -> float:
    """Measure the memory in an extra pass, since tracing slows the audit down."""
    tracemalloc.start()
    try:
        asyncio.run(_pages(database, Temporal(lost)))
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


async def _pages(database: Database, temporal: Temporal) -> tuple[int, PartReport]:
    store, not_asked = SqlStore(database), Mock()
    activities = RunAudit(store.records, store.findings, store.limits, temporal, store.tasks, not_asked, AT_ONCE)
    audit = AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC), repair=True)
    report, pages, after = PartReport(), 0, None
    while pages == 0 or after is not None:
        step = AuditStep(audit=audit, part=AuditPart.RUNS, after=after)
        page = await ActivityEnvironment().run(activities.audit_runs, step)
        report, after, pages = report.with_page(page), page.rest, pages + 1
    return pages, report
