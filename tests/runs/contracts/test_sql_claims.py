"""Is every task claimed by one deployer at a time, never beyond a limit, and never once the run is to stop?"""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.database.transactions import lock_run
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.limits.store.admission import limits_under_lock
from crawler_lifecycle.model.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.model.limits import ScopeLimits
from crawler_lifecycle.model.records import RunRecord, TaskRecord
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.ports import Claim, Claims, SupervisorExecution
from crawler_lifecycle.runs.store import passes
from tests.kit.data.databases import MakeRun, give_away, ref_to

MINUTE = timedelta(minutes=1)
EXPIRED = timedelta(seconds=-1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def claims(database: Database) -> Claims:
    return SqlStore(database).claims


@pytest.fixture
def processing(database: Database, make_run: MakeRun) -> MakeRun:
    """Makes runs whose main job runs."""

    def make(tasks: int = 1, *, entry: Crawler | None = None, **request: object) -> RunRecord:
        run = make_run(tasks, entry=entry, **request)
        claim = SqlStore(database).claims.claim_main(ref_to(run), "supervisor", MINUTE)
        assert isinstance(claim, Claim)
        SqlStore(database).claims.deployed(claim, job(claim).model_copy(update={"job_uid": "main"}))
        main = SqlStore(database).tasks.rows(run.run_id, [0])[0]
        change = TaskChange(task=0, attempt=1, version=main.version, status=TaskStatus.RUNNING, job_uid="main")
        SqlStore(database).tasks.sync(ref_to(run), [change])
        return SqlStore(database).runs.mark_started(ref_to(run))

    return make


def job(claim: Claim) -> Deployment:
    return Deployment(key=claim.request.key, job_name=f"job-{claim.task}", job_uid=f"uid-{claim.task}", created=True)


def same(claim: Claim) -> DeploymentRequest:
    """What is asked for; until when is the claim's own."""
    assert claim.request.not_after is not None
    return claim.request.model_copy(update={"not_after": None})


def numbers(claimed: list[Claim]) -> list[int]:
    return [claim.task for claim in claimed]


def task(database: Database, run: RunRecord, number: int) -> TaskRecord:
    return SqlStore(database).records.details(run.run_id).tasks[number]


def over(database: Database, run: RunRecord, claim: Claim, status: TaskStatus, job_uid: str | None = None) -> None:
    """As a look writes it."""
    [row] = SqlStore(database).tasks.rows(run.run_id, [claim.task])
    change = TaskChange(task=row.task, attempt=row.attempt, version=row.version, status=status, job_uid=job_uid)
    SqlStore(database).tasks.sync(ref_to(run), [change])


def stop(database: Database, run: RunRecord) -> None:
    SqlStore(database).runs.log_stop(ref_to(run), StopRequest(), NOW)


def test_a_claim_says_all_that_a_deployment_needs(claims: Claims, make_run: MakeRun) -> None:
    entry = Crawler(name="books", command=["crawl"], max_duration_seconds=60)
    run = make_run(4, entry=entry, arguments={"a": "b"}, settings={"DELAY": "2"}, cluster="far")
    claim = claims.claim_main(ref_to(run), "token", MINUTE)
    assert isinstance(claim, Claim)
    request = claim.request
    assert (claim.run_id, claim.task, claim.token) == (run.run_id, 0, "token")
    assert request.key == f"{run.run_uid}:0:1"
    assert (request.crawler, request.arguments, request.cluster, request.tasks) == (entry, {"a": "b"}, "far", 4)
    assert (request.settings, request.installation, request.deadline_seconds) == ({"DELAY": "2"}, run.installation, 60)


def test_the_main_job_is_claimed_again_only_by_its_token_or_late(claims: Claims, make_run: MakeRun) -> None:
    run = ref_to(make_run())
    first = claims.claim_main(run, "a", MINUTE)
    assert isinstance(first, Claim)
    assert claims.claim_main(run, "b", MINUTE) is None
    again = claims.claim_main(run, "a", EXPIRED)
    assert isinstance(again, Claim)
    assert same(again) == same(first)
    second = claims.claim_main(run, "b", MINUTE)
    assert isinstance(second, Claim)
    assert same(second) == same(first)
    assert claims.claim_main(run, "a", MINUTE) is None


def test_a_run_that_changes_while_it_waits_for_the_lock_is_read_again(
    claims: Claims, make_run: MakeRun, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, questions = make_run(), list[int]()

    def wait_for_the_lock(connection: Connection, most_tasks: int) -> dict[str, ScopeLimits]:
        questions.append(len(questions))
        if questions == [0]:
            lock_run(connection, run.run_id)
        return limits_under_lock(connection, most_tasks)

    monkeypatch.setattr(passes, "limits_under_lock", wait_for_the_lock)
    assert isinstance(claims.claim_main(ref_to(run), "supervisor", MINUTE), Claim)
    assert questions == [0, 1]
    assert SqlStore(database).limits.miscounted() == {}


def test_a_main_job_that_is_there_is_not_claimed(claims: Claims, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    claim = claims.claim_main(ref_to(run), "a", MINUTE)
    assert isinstance(claim, Claim)
    assert claims.deployed(claim, job(claim)) is Intent.RUN
    assert claims.claim_main(ref_to(run), "a", MINUTE) is None
    there = task(database, run, 0)
    assert (there.status, there.job_name, there.job_uid) == (TaskStatus.PENDING, "job-0", "uid-0")
    assert there.deployed_at


def test_no_main_job_for_a_run_that_is_to_stop(claims: Claims, make_run: MakeRun, database: Database) -> None:
    run = make_run()
    stop(database, run)
    assert claims.claim_main(ref_to(run), "a", MINUTE) is None


def test_children_in_order_each_once(claims: Claims, processing: MakeRun) -> None:
    processing(6)
    assert numbers(claims.claim_tasks("a", MINUTE, 2)) == [1, 2]
    assert numbers(claims.claim_tasks("b", MINUTE, 9)) == [3, 4, 5]
    assert claims.claim_tasks("c", MINUTE, 9) == []
    assert claims.claim_tasks("c", MINUTE, 0) == []


def test_claims_that_ran_out_come_first_with_the_same_key(claims: Claims, processing: MakeRun) -> None:
    processing(9)
    claims.claim_tasks("a", MINUTE, 3)
    late = claims.claim_tasks("b", EXPIRED, 2)
    again = claims.claim_tasks("c", MINUTE, 3)
    assert numbers(again) == [4, 5, 6]
    assert [same(claim) for claim in again[:2]] == [same(claim) for claim in late]


def test_whoever_asks_again_gets_its_own_claims_back(claims: Claims, processing: MakeRun) -> None:
    processing(9)
    mine = claims.claim_tasks("a", MINUTE, 3)
    claims.claim_tasks("b", MINUTE, 3)
    again = claims.claim_tasks("a", MINUTE, 6)
    assert [same(claim) for claim in again[:3]] == [same(claim) for claim in mine]
    assert numbers(again) == [1, 2, 3, 7, 8]


def test_claims_that_fail_again_and_again_leave_half_of_the_others_their_turn(
    claims: Claims, processing: MakeRun
) -> None:
    processing(11)
    assert numbers(claims.claim_tasks("a", MINUTE, 4)) == [1, 2, 3, 4]
    assert numbers(claims.claim_tasks("a", MINUTE, 4)) == [1, 2, 5, 6]
    assert numbers(claims.claim_tasks("a", MINUTE, 4)) == [3, 4, 7, 8]


def test_children_wait_for_their_run(claims: Claims, make_run: MakeRun) -> None:
    make_run(3)
    assert claims.claim_tasks("a", MINUTE, 9) == []


def test_a_run_that_nobody_looks_at_gets_no_more_jobs(claims: Claims, processing: MakeRun, database: Database) -> None:
    """Its row may be that of a backup. Whoever takes it over looks at it."""
    run, now = processing(3), datetime.now(UTC)
    begun_long_ago = update(histories).values(started_at=now - timedelta(hours=9))
    with database.transaction() as connection:
        connection.execute(begun_long_ago)
    assert claims.claim_tasks("dispatcher", MINUTE, 9) == []
    SqlStore(database).runs.take_over(run.run_id, SupervisorExecution(run.workflow_id, "the next", now))
    assert numbers(claims.claim_tasks("dispatcher", MINUTE, 1)) == [1]
    for due, most in ((now - timedelta(hours=1), 0), (now + MINUTE, 2)):
        look = ref_to(run).model_copy(update={"epoch": run.epoch + 1})
        SqlStore(database).runs.mark_look(look, 0, known=True, problem=None, next_look_at=due)
        assert len(claims.claim_tasks("dispatcher", MINUTE, 9)) == most


def test_a_run_has_no_more_in_the_cluster_than_it_may(claims: Claims, processing: MakeRun, database: Database) -> None:
    processing(9, max_parallel=3)
    first = claims.claim_tasks("a", MINUTE, 9)
    assert numbers(first) == [1, 2]  # the main job counts
    assert claims.claim_tasks("b", MINUTE, 9) == []
    claims.failed(first[0], "bad_image", "no such image", refused=True)
    assert numbers(claims.claim_tasks("b", MINUTE, 9)) == [3]


def test_a_claim_that_ran_out_does_not_block_its_own_place(claims: Claims, processing: MakeRun) -> None:
    processing(3, max_parallel=2)
    assert numbers(claims.claim_tasks("a", EXPIRED, 9)) == [1]
    assert numbers(claims.claim_tasks("b", MINUTE, 9)) == [1]


def test_runs_of_another_installation_are_not_deployed(claims: Claims, processing: MakeRun, database_url: str) -> None:
    processing(3)
    give_away(database_url)
    ours = processing(3)
    assert {claim.run_id for claim in claims.claim_tasks("a", MINUTE, 9)} == {ours.run_id}


def test_a_deployment_is_recorded_once_by_its_holder(claims: Claims, processing: MakeRun, database: Database) -> None:
    run = processing(2)
    (late,) = claims.claim_tasks("a", EXPIRED, 1)
    (held,) = claims.claim_tasks("b", MINUTE, 1)
    claims.deployed(late, job(late))
    assert task(database, run, 1).status is TaskStatus.DEPLOYING
    claims.deployed(held, job(held))
    recorded = task(database, run, 1)
    assert recorded.status is TaskStatus.PENDING
    claims.deployed(held, job(held))
    claims.failed(held, "bad_image", "too late", refused=True)
    assert task(database, run, 1) == recorded


def test_whoever_lost_its_claim_learns_whether_anybody_wants_its_job(
    claims: Claims, processing: MakeRun, database: Database
) -> None:
    run = processing(4)
    taken, adopted, ended = claims.claim_tasks("a", EXPIRED, 3)
    assert numbers(claims.claim_tasks("b", MINUTE, 1)) == [taken.task]
    over(database, run, adopted, TaskStatus.SUCCEEDED, job(adopted).job_uid)
    over(database, run, ended, TaskStatus.STOPPED)
    assert claims.deployed(taken, job(taken)) is Intent.RUN, "its next owner finds it"
    assert claims.deployed(adopted, job(adopted)) is Intent.RUN, "a look has found it"
    assert claims.deployed(ended, job(ended)) is None
    of_another_attempt = replace(taken, request=taken.request.model_copy(update={"attempt": 7}))
    assert claims.deployed(of_another_attempt, job(taken)) is None


def test_whoever_deployed_learns_that_the_run_is_to_stop(
    claims: Claims, processing: MakeRun, database: Database
) -> None:
    run = processing(2)
    (claim,) = claims.claim_tasks("a", MINUTE, 1)
    stop(database, run)
    assert claims.deployed(claim, job(claim)) is Intent.STOP
    assert task(database, run, 1).job_uid == "uid-1"


def test_a_deployment_of_a_run_that_is_gone(claims: Claims, processing: MakeRun) -> None:
    processing(2)
    (claim,) = claims.claim_tasks("a", MINUTE, 1)
    gone = Claim(run_id=claim.run_id + 999, task=1, token="a", request=claim.request)
    with pytest.raises(NotFound):
        claims.deployed(gone, job(gone))


def test_a_refusal_ends_the_task_and_doubt_does_not(claims: Claims, processing: MakeRun, database: Database) -> None:
    run = processing(3)
    refused, unknown = claims.claim_tasks("a", MINUTE, 2)
    claims.failed(refused, "bad_image", "no such image", refused=True)
    ended = task(database, run, 1)
    assert (ended.status, ended.reason, ended.message) == (TaskStatus.FAILED, "bad_image", "no such image")
    assert ended.finished_at
    claims.failed(unknown, "scheduler_down", "no answer", refused=False)
    waits = task(database, run, 2)
    claims.failed(unknown, "scheduler_down", "still no answer", refused=False)
    assert (waits.status, waits.cause, waits.message) == (TaskStatus.DEPLOYING, "scheduler_down", "no answer")
    assert task(database, run, 2).cause_since == waits.cause_since
    assert claims.claim_tasks("b", MINUTE, 9) == []


def test_what_was_in_the_way_of_a_job_is_not_said_of_it_once_it_is_there(
    claims: Claims, processing: MakeRun, database: Database
) -> None:
    run = processing(2)
    (waiting,) = claims.claim_tasks("a", EXPIRED, 1)
    claims.failed(waiting, "quota", "no room", refused=False)
    assert task(database, run, 1).message == "no room"
    (held,) = claims.claim_tasks("a", MINUTE, 1)
    claims.deployed(held, job(held))
    deployed = task(database, run, 1)
    assert (deployed.status, deployed.cause, deployed.message) == (TaskStatus.PENDING, None, None)


def test_why_tasks_are_still_queued(claims: Claims, processing: MakeRun, database: Database) -> None:
    run = processing(4, max_parallel=2)
    assert numbers(claims.claim_tasks("a", MINUTE, 9)) == [1]
    since = task(database, run, 2).cause_since
    assert since
    assert claims.claim_tasks("b", MINUTE, 9) == []
    assert (task(database, run, 2).cause, task(database, run, 2).cause_since) == ("run_limit", since)
    assert task(database, run, 0).cause is None


def test_many_deployers_claim_each_task_once_and_no_more_than_the_run_may(
    claims: Claims, processing: MakeRun, database: Database
) -> None:
    run, together = processing(40, max_parallel=30), threading.Barrier(8)

    def deploy(token: str) -> list[int]:
        together.wait(timeout=30)
        mine: list[Claim] = []
        while got := claims.claim_tasks(token, MINUTE, 3):
            assert len(got) <= 3
            for claim in got:
                claims.deployed(claim, job(claim))
            mine += got
        return numbers(mine)

    with ThreadPoolExecutor(8) as pool:
        claimed = [number for each in pool.map(deploy, [f"token-{n}" for n in range(8)]) for number in each]
    assert max(Counter(claimed).values()) == 1
    assert len(claimed) == 29
    assert len(SqlStore(database).tasks.by_status(run.run_id)[TaskStatus.PENDING]) == 29


@pytest.mark.parametrize("after", range(3))
def test_nothing_is_claimed_once_a_stop_has_returned(
    claims: Claims, processing: MakeRun, database: Database, after: int
) -> None:
    run, stopped, underway = processing(400), threading.Event(), threading.Semaphore(0)

    def deploy(token: str) -> tuple[int, int]:
        before = set[int]()
        while True:
            was_stopped = stopped.is_set()
            claimed = numbers(claims.claim_tasks(token, MINUTE, 2))
            if was_stopped:
                return len(before), len(claimed)
            before.update(claimed)
            underway.release()

    with ThreadPoolExecutor(4) as pool:
        deployers = [pool.submit(deploy, f"token-{n}") for n in range(4)]
        try:
            for _ in range(1 + 5 * after):
                assert underway.acquire(timeout=30)
            stop(database, run)
            at_stop = SqlStore(database).tasks.by_status(run.run_id).get(TaskStatus.DEPLOYING, [])
        finally:
            stopped.set()
        claimed = [deployer.result(timeout=60) for deployer in deployers]
    assert [late for _, late in claimed] == [0] * 4
    assert SqlStore(database).tasks.by_status(run.run_id).get(TaskStatus.DEPLOYING, []) == at_stop
    assert sum(before for before, _ in claimed) == len(at_stop)


def test_a_stop_and_a_deployment_that_cross_miss_each_other_never(
    claims: Claims, processing: MakeRun, database: Database
) -> None:
    """Either the deployer learns of the stop, or the stop's first look at the tasks finds the job."""
    for _ in range(10):
        run, together = processing(2), threading.Barrier(2)
        (claim,) = claims.claim_tasks("a", MINUTE, 1)

        def deployed(claim: Claim = claim, together: threading.Barrier = together) -> Intent | None:
            together.wait(timeout=30)
            return claims.deployed(claim, job(claim))

        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(deployed)
            together.wait(timeout=30)
            stop(database, run)
            found = task(database, run, 1).job_uid
            assert found == "uid-1" or answer.result(timeout=30) is Intent.STOP
