"""Statements and duration of a look in the database.

The activities of a look run in their order over a real database. The cluster's answer is made in memory, and Temporal
takes no part: only the database and the comparison are measured.
"""

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import cast
from uuid import uuid4

from bench.databases import Row, on_each
from bench.measuring import Ledger
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunInput, RunRef
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import (
    CloseLook,
    EvidenceRequest,
    EvidenceWrite,
    LookAt,
    StatusWrite,
    TaskChange,
    TaskEvidence,
)
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.databases import ref_to

REPEATS = 3
LOG_TAIL = "2026-11-20 08:00:00 INFO crawled (200) https://books.example/catalogue/page\n" * 30


class Shown:
    """Stand-in for a cluster that shows every task in the given phase."""

    def __init__(self, tasks: int, phase: JobPhase) -> None:
        code = 0 if phase is JobPhase.SUCCEEDED else None
        jobs = [JobLook(task, 1, f"uid-{task}", f"job-{task}", phase, exit_code=code) for task in range(tasks)]
        self._look = Look(complete=True, jobs={(job.task, job.attempt): job for job in jobs})

    def look(self, _run_uid: str, _watched: Collection[JobKey], *, uids: Mapping[JobKey, str]) -> Look:  # noqa: ARG002
        return self._look

    def evidence(self, _run_uid: str, jobs: Sequence[JobKey], *, hurried: bool = False) -> list[TaskEvidence]:
        assert not hurried, "these have ended"
        return [
            TaskEvidence(task=task, attempt=attempt, node="node-1", log_tail=LOG_TAIL, events=["started", "ended"])
            for task, attempt in jobs
        ]


def measure(scale: Scale) -> Table:
    return on_each(("tasks", "of which ended", "looks", "statements", "ms"), partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    for tasks in scale.tasks:
        quiet = [_looks(database, _run_of(database, tasks), Shown(tasks, JobPhase.RUNNING)) for _ in range(REPEATS)]
        over = [_looks(database, _run_of(database, tasks), Shown(tasks, JobPhase.SUCCEEDED)) for _ in range(REPEATS)]
        yield tasks, "none", *_medians(quiet)
        yield tasks, "all", *_medians(over)


def _run_of(database: Database, tasks: int) -> RunRef:
    """Make a run with RUNNING tasks only."""
    entry = Crawler(name="books", command=["true"])
    new = NewRun(RunRequest(crawler="books"), entry, tasks, f"crawl-{uuid4()}", str(uuid4()))
    runs = SqlStore(database).runs
    run = ref_to(runs.create(new))
    runs.mark_started(run)
    running = [
        TaskChange(task=task, attempt=1, version=1, status=TaskStatus.RUNNING, job_uid=f"uid-{task}")
        for task in range(tasks)
    ]
    SqlStore(database).tasks.sync(run, running)
    return run


def _looks(database: Database, run: RunRef, shown: Shown) -> tuple[int, Ledger]:
    """Look until the database agrees with the cluster."""
    cluster = cast("Cluster", shown)  # a look uses no further method
    steps = ReconciliationActivities(SqlStore(database).runs, SqlStore(database).tasks, cluster)
    ledger, looks, more = Ledger(database), 0, True
    with ledger.spent():
        while more:
            more, looks = _look(steps, run), looks + 1
    return looks, ledger


def _look(steps: ReconciliationActivities, run: RunRef) -> bool:
    """Make a look, in the order of `runs/workflows/looks.py`. Return whether another look has to follow."""
    active = steps.get_active_running_tasks(RunInput(run=run))
    differences = steps.get_history_statuses_to_sync(LookAt(run=run, active=active))
    rest = differences.evidence
    while rest:
        page = steps.get_bulk_task_history_data(EvidenceRequest(run=run, tasks=rest))
        steps.reconcile_tasks(EvidenceWrite(run=run, items=page.items))
        rest = page.rest
    if differences.changes:
        written = steps.sync_statuses(StatusWrite(run=run, changes=differences.changes))
        assert not written.stale, written
    steps.count_alive_tasks(CloseLook(run=run))
    return differences.more


def _medians(measured: Sequence[tuple[int, Ledger]]) -> tuple[object, ...]:
    looks, first = measured[0]
    return looks, first.statements, statistics.median(ledger.milliseconds for _, ledger in measured)
