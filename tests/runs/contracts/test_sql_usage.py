"""A run's use counts each attempt and archive once, and the sums are those of the runs that ended in the period."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.model.deployment import Crawler, Resources
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.model.retries import FailureKind, NextAttempt
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import ExportKind, ExportState, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.model.usage import GroupUse, UsageBy
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.data.databases import MakeRun, ref_to
from tests.kit.data.exports import event_of
from tests.kit.data.flows import pushed
from tests.kit.data.statements import plan_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
RETRY = NextAttempt(kind=FailureKind.PROGRAM, deploy_after=START)
SMALL = Crawler(name="books", resources=Resources(cpu="500m", memory="256Mi"))


def attempt(
    store: SqlStore, run: RunRef, task: int, seconds: float | None, status: TaskStatus, *, again: bool = False
) -> None:
    """Let the task's attempt end after that time; None: the attempt never started."""
    (row,) = store.tasks.rows(run.run_id, [task])
    started_at = None if seconds is None else START
    change = TaskChange(
        task=task,
        attempt=row.attempt,
        version=row.version,
        status=status,
        job_uid=f"uid-{task}-{row.attempt}",
        started_at=started_at,
        ended_at=START + timedelta(seconds=seconds or 1),
        next_attempt=RETRY if again else None,
    )
    assert store.tasks.sync(run, [change]) == 1


def use(run: RunRecord) -> Sequence[float | None]:
    return run.task_seconds, run.cpu_seconds, run.memory_gib_seconds


def archive(store: SqlStore, run: RunRecord, size: int | None, state: ExportState = ExportState.DONE) -> None:
    event = event_of(run, ExportKind.FILES_READY).model_copy(update={"size": size})
    for _ in range(2):
        store.runs.open_export(ref_to(run), event)
        store.runs.settle_export(ref_to(run), event.event_id, state, None, None, event)


def test_all_attempts_count_and_a_second_write_changes_nothing(database: Database, make_run: MakeRun) -> None:
    store, created = SqlStore(database), make_run(4, entry=SMALL)
    run = ref_to(created)
    assert use(created) == (None, None, None)
    attempt(store, run, 0, 10.5, TaskStatus.FAILED, again=True)
    attempt(store, run, 0, 100, TaskStatus.SUCCEEDED)
    attempt(store, run, 1, None, TaskStatus.LOST, again=True)
    attempt(store, run, 1, 1000, TaskStatus.FAILED)
    attempt(store, run, 2, -5, TaskStatus.FAILED)  # clocks of two machines
    store.tasks.cancel_queued(run, "stopped")
    ends = [store.runs.close(run, RunStatus.FAILED, "too_many_failures") for _ in range(2)]
    assert [use(end) for end in ends] == [(1110.5, 555.25, 277.625)] * 2


def test_a_reopened_run_adds_to_its_use(database: Database, make_run: MakeRun) -> None:
    store, created = SqlStore(database), make_run(2)
    for task, status in enumerate((TaskStatus.SUCCEEDED, TaskStatus.FAILED)):
        attempt(store, ref_to(created), task, 20, status)
    first = store.runs.close(ref_to(created), RunStatus.FAILED, "too_many_failures")
    assert use(first) == (40, None, None), "the entry requests nothing"
    archive(store, first, 500)
    again = store.runs.reopen(created.run_id, SupervisorExecution(created.workflow_id, "second", START))
    assert (again.task_seconds, again.archived_bytes) == (40, 500)
    attempt(store, ref_to(again), 1, 2, TaskStatus.SUCCEEDED)
    second = store.runs.close(ref_to(again), RunStatus.COMPLETED, "all_succeeded")
    archive(store, second, 700)
    assert use(second) == (42, None, None)
    assert store.runs.current(ref_to(again)).archived_bytes == 1200


@pytest.mark.parametrize(
    ("size", "state", "expected"),
    [(7, ExportState.DONE, 7), (0, ExportState.DONE, 0), (None, ExportState.DONE, 0), (7, ExportState.FAILED, None)],
)
def test_a_finished_archive_counts(
    database: Database, make_run: MakeRun, size: int | None, state: ExportState, expected: int | None
) -> None:
    store, run = SqlStore(database), make_run()
    archive(store, run, size, state)
    assert store.runs.current(ref_to(run)).archived_bytes == expected


def ended(
    database: Database, run: RunRecord, seconds: float | None, size: int | None = None, *, days: float = 0
) -> None:
    store = SqlStore(database)
    attempt(store, ref_to(run), 0, seconds, TaskStatus.SUCCEEDED)
    store.runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    if size is not None:
        archive(store, run, size)
    with database.transaction() as connection:
        this_run = update(histories).where(histories.c.id == run.run_id)
        connection.execute(this_run.values(finished_at=START + timedelta(days=days)))


def groups(database: Database, by: UsageBy) -> list[tuple[str | None, int, float]]:
    answer = SqlStore(database).records.usage(by, START, START + timedelta(days=1))
    assert answer.total == GroupUse(
        name=None, runs=4, task_seconds=1111, cpu_seconds=500, memory_gib_seconds=250, archived_bytes=33
    )
    return [(group.name, group.runs, group.task_seconds) for group in answer.groups]


def test_sums_by_every_property(database: Database, make_run: MakeRun) -> None:
    flow = pushed(database, Workflow("nightly", id="nightly-1").add("shop", crawl("prices")))
    link = FlowLink(flow_uid=flow.uid, flow_id="nightly-1", member=1, path="shop", generation=1, attempt=1)
    gone = link.model_copy(update={"flow_uid": "4711"})
    other = Crawler(name="prices")
    acme = ["site:a", "tenant:acme", "tenant:umbrella"]
    ended(database, make_run(entry=SMALL, labels=acme), 1000, 11)
    ended(database, make_run(entry=other, labels=["tenants:no"], flow=link), 100, 22)
    ended(database, make_run(entry=other, labels=["tenant:umbrella"], flow=gone), 10)
    ended(database, make_run(entry=other), 1)
    for days in (-0.001, 1):  # outside
        ended(database, make_run(), 5, 5, days=days)
    make_run()
    assert groups(database, UsageBy.CRAWLER) == [("books", 1, 1000), ("prices", 3, 111)]
    assert groups(database, UsageBy.TENANT) == [("acme", 1, 1000), (None, 2, 101), ("umbrella", 1, 10)]
    assert groups(database, UsageBy.FLOW) == [(None, 2, 1001), ("nightly-1", 1, 100), ("4711", 1, 10)]
    assert groups(database, UsageBy.LABEL) == [
        ("tenant:umbrella", 2, 1010),
        *((label, 1, 1000) for label in acme[:2]),
        ("tenants:no", 1, 100),
        (None, 1, 1),
    ]


def test_a_period_without_runs_has_sums_of_nothing(database: Database) -> None:
    answer = SqlStore(database).records.usage(UsageBy.CRAWLER, START, START)
    assert (answer.groups, answer.total.runs, answer.total.task_seconds) == ([], 0, 0)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("by", [UsageBy.CRAWLER, UsageBy.FLOW])
def test_sums_read_an_index_alone(database: Database, by: UsageBy) -> None:
    plan = plan_of(database, lambda: SqlStore(database).records.usage(by, START, START))
    assert "SEARCH histories USING COVERING INDEX ix_histories_usage" in plan, plan
