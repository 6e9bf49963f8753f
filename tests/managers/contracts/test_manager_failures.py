"""Failures around the ledger of a crawl manager: former hosts, doors at once, and runs that change or vanish."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import delete

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, history_logs, task_histories
from crawler_lifecycle.errors import Conflict, Fenced
from crawler_lifecycle.flows.model.definition import CallForm, StepWork
from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.flows.model.requests import AddItems
from crawler_lifecycle.flows.model.turns import NO_EFFECTS, Counts, ManagerIntent, Page, Reaction, Start
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.model.manager_items import CodeProblem, ItemState, Job, JobFilter, JobState, Verdict
from crawler_lifecycle.model.requests import RunParameters
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.crash.ports import methods_of
from tests.kit.data.databases import copy_of, ref_to
from tests.kit.data.managers import Managed, added, managed, numbers, pushed_manager
from tests.kit.data.statements import counted

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = RunParameters(crawler="books")
WORK = StepWork(function="m:Shops", form=CallForm.MANAGER, arguments=[])
ROUNDS = 5


@pytest.fixture
def flow(database: Database) -> Managed:
    return managed(database)


def later() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=5)


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """Do the acts in threads at once. Return their answers, and refusals as errors."""
    barrier = Barrier(len(acts))

    def do(act: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return act()
        except Conflict as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(do, acts))


# hosts

CALLS: dict[str, tuple[Any, ...]] = {
    "begin": ("child-9",),
    "intent": (),
    "ended": (9,),
    "react": ([Reaction(number=1, attempt=1, ended_at=None, verdict=Verdict.OK)],),
    "running": (),
    "jobs": (JobState.RUNNING,),
    "runs": (JobFilter(limit=9),),
    "offer": (Page(read=1),),
    "waiting": (9,),
    "delay": ([2],),
    "start": ([Start(number=2, attempt=1, request=REQUEST)],),
    "unstarted": (),
    "refuse": (2, 1, Refusal("no")),
    "commit": (NO_EFFECTS, "late"),
    "find": ([],),
    "counts": (),
    "pause": (CodeProblem(phase="hook", error="no"),),
    "problem": (),
    "keep_output": ([OutputLine(at=datetime(2026, 11, 26, tzinfo=UTC), text="late")],),
    "close": ("finished", NO_EFFECTS, 0),
}
WITHOUT_A_MANAGER = {"news"}  # for all managers with the host's token


def test_every_call_of_a_former_host_is_refused(flow: Managed) -> None:
    assert CALLS.keys() | WITHOUT_A_MANAGER == set(methods_of(ManagerLedger))
    flow.offer("a", "b")
    flow.ended_run(flow.started(1))
    other = flow.begun_by("other")
    flow.managers.begin(other, "child-2")
    for name, arguments in CALLS.items():
        options = {"limit": 9} if name == "jobs" else {}
        with pytest.raises(Fenced):
            getattr(flow.managers, name)(flow.mine, *arguments, **options)
    assert flow.managers.news("host", LONG_AGO) == []
    assert flow.managers.counts(other) == Counts(waiting=1, running=1)


def test_the_news_of_many_managers_take_a_single_statement(database: Database) -> None:
    flows = [managed(database, f"shops/{number}") for number in range(20)]
    with counted(database) as statements:
        news = flows[0].managers.news("host", LONG_AGO)
    assert {of_manager.ref.flow_uid for of_manager in news} == {flow.uid for flow in flows}
    assert sum("managers" in statement for statement in statements) == 1


# runs


def test_an_attempt_whose_run_is_over_is_never_started_again(flow: Managed) -> None:
    flow.offer("a")
    flow.ended_run(flow.started())
    assert flow.managers.unstarted(flow.mine) == []
    (entry,) = flow.store.manager_audits.doubtful(later(), limit=9)
    assert (entry.run_id is None, entry.knows_run) == (False, True), "the reaction is missing, and not the run"


def test_a_run_that_is_resumed_under_another_epoch_ends_once(flow: Managed) -> None:
    flow.offer("a")
    run = flow.run_of(flow.started())
    taken = flow.store.runs.take_over(run.run_id, SupervisorExecution(run.workflow_id, "again", datetime.now(UTC)))
    with pytest.raises(Fenced):
        flow.store.runs.close(ref_to(run), RunStatus.FAILED, "main_job_lost")
    assert flow.ended() == []
    flow.close(taken)
    (job,) = flow.ended()
    assert (job.outcome, job.is_failed) == ("finished", False)
    flow.react(job)
    assert flow.ended() == []


def test_an_end_outlives_the_history_of_its_run(flow: Managed, database: Database) -> None:
    flow.offer("a")
    run = flow.ended_run(flow.started(), RunStatus.FAILED)
    with database.transaction() as tx:
        for table, column in ((history_logs, "history_id"), (task_histories, "history_id"), (histories, "id")):
            tx.execute(delete(table).where(table.c[column] == run.run_id))
    (job,) = flow.ended()
    assert (job.outcome, job.is_failed, job.run_id) == ("failed", True, run.run_id)
    flow.react(job, Verdict.BAD)
    (listed,) = flow.managers.jobs(flow.mine, JobState.FINISHED, limit=9)
    assert (listed.outcome, flow.managers.find(flow.mine, [job.key])) == ("failed", [listed])
    (record,) = flow.store.manager_doors.items(flow.id, limit=9)
    assert (record.state, record.outcome) == (ItemState.FAILED, "failed")
    assert flow.store.manager_audits.doubtful(later(), limit=9) == []


def test_a_ledger_that_has_lost_its_last_writes_starts_the_same_jobs(sqlite_template: Path, tmp_path: Path) -> None:
    """A database comes back without its last second, or from a backup: the runs of the lost attempts are gone as well.

    The keys of the further starts are those of the lost starts, so Temporal makes no second workflow. A run with the
    number of a lost run is another run.
    """
    url = copy_of(sqlite_template, tmp_path)
    before = Database(url)
    flow = managed(before)
    flow.offer("a", "b")
    flow.ended_run(flow.started(1))
    before.close()
    shutil.copyfile(tmp_path / "crawler.db", tmp_path / "backup.db")
    lost = Managed(flow.store, flow.id, flow.uid, ref_to_manager=flow.mine)
    lost.offer("c", read=3)
    lost_job, lost_run = _started_and_run(lost, 2)
    lost.react(next(job for job in lost.ended() if job.number == 1))
    before.close()
    shutil.copyfile(tmp_path / "backup.db", tmp_path / "crawler.db")
    for journal in tmp_path.glob("crawler.db-*"):
        journal.unlink()

    again = managed(Database(url), begins=False)
    begun = again.begun("child-2")
    assert (begun.read, numbers(again.ended())) == (2, [1]), "the hook for the first end comes again"
    assert again.offer("c", read=3) == [3]
    job, run = _started_and_run(again, 2)
    assert job.key == lost_job.key
    assert (run.run_id, run.run_uid != lost_run.run_uid) == (lost_run.run_id, True)
    (running,) = again.managers.running(again.mine)
    assert running.run_uid == run.run_uid


def _started_and_run(flow: Managed, number: int) -> tuple[Job, Any]:
    start = flow.started(number)
    return start.job, flow.run_of(start)


# doors


def test_two_doors_at_once_make_one_manager(database: Database) -> None:
    for number in range(ROUNDS):
        doors = at_once(*[partial(pushed_manager, database, WORK, f"shops/{number}")] * 4)
        assert len({flow.uid for flow in doors}) == 1
        assert len(doors[0].store.manager_doors.statuses(doors[0].id)) == 1


def test_an_item_at_the_close_is_refused_or_taken(database: Database) -> None:
    for number in range(ROUNDS):
        flow = managed(database, f"shops/{number}")
        request = AddItems(key="late", items=(added("x"),))
        answer, door = at_once(
            partial(flow.store.manager_doors.add_items, flow.id, request),
            partial(flow.managers.close, flow.mine, "finished", NO_EFFECTS, 0),
        )
        states = [record.state for record in flow.store.manager_doors.items(flow.id, limit=9)]
        if isinstance(answer, Conflict):
            assert (door, states) == (None, [])
        else:
            assert (door, states) == (1, [ItemState.WAITING]), "the manager goes on with the item"


def test_a_force_while_draining_is_a_stop_of_all_crawls(flow: Managed) -> None:
    flow.offer("a", "b")
    run = flow.run_of(flow.started(1))
    flow.hold("drain")
    assert flow.managers.intent(flow.mine) is ManagerIntent.DRAIN
    flow.cancel()
    assert flow.managers.intent(flow.mine) is ManagerIntent.STOP
    assert flow.store.manager_doors.runs_under_way(flow.id) == [run.run_id]
    assert flow.start_items(*flow.waiting()).started == []
    flow.close(run, RunStatus.FAILED, "stopped_forced")
    (job,) = flow.ended()
    assert job.outcome == "cancel_timeout"


def test_an_attempt_has_a_single_run_whoever_starts_its_workflow_again(flow: Managed) -> None:
    flow.offer("a")
    start = flow.started()
    run = flow.run_of(start)
    with pytest.raises(Conflict, match=f"has run {run.run_id} already"):
        flow.run_of(start)
    assert flow.managers.running(flow.mine)[0].run_uid == run.run_uid
