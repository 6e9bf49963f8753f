"""Runs whose crawls have said how it went."""

from collections.abc import Sequence

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.looks import OutcomeFacts
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from tests.kit.data.databases import ref_to


def end_tasks(
    database: Database,
    run: RunRecord,
    results: Sequence[CrawlResult | None],
    status: TaskStatus = TaskStatus.SUCCEEDED,
    reason: str | None = None,
) -> None:
    """Let every task end, with these results."""
    tasks = SqlStore(database).tasks
    changes = [
        TaskChange(
            task=row.task,
            attempt=row.attempt,
            version=row.version,
            status=status,
            reason=reason,
            job_uid=f"uid-{row.task}",
            facts=OutcomeFacts(job_uid=f"uid-{row.task}", succeeded=True, result=result) if result else None,
        )
        for row, result in zip(tasks.rows(run.run_id, range(len(results))), results, strict=True)
    ]
    assert tasks.sync(ref_to(run), changes) == len(results)
