"""What every cluster does, whatever it is made of."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from crawler_lifecycle.model.deployment import DeploymentRequest
from crawler_lifecycle.model.looks import JobLook, JobPhase
from tests.kit.clusters.behaviours import (
    IGNORES_BEING_ASKED,
    RUNS_UNTIL_ASKED,
    SILENT,
    SUCCEEDS,
    Behaviour,
    ends_by_signal,
    exits,
    fails_to_run,
    prints,
)
from tests.kit.clusters.clusters import Bench
from tests.kit.waiting import until

LINES = "".join(f"line {number}\n" for number in range(1, 301)).encode() + b"\377\303"
PRINTS_LINES = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; printf '\\377\\303'; exit 9"
SPIDERS = ("ünï 🕷\n".encode() * 20000)[:200000]


def deploy_and_run(bench: Bench, request: DeploymentRequest) -> JobLook:
    """Until it has said that it is up: only then does it listen, or has made up its mind not to."""
    bench.cluster.deploy(request)
    job = bench.until_phase(request, JobPhase.RUNNING)
    key = (request.task, request.attempt)
    until(lambda: "up" in bench.cluster.log(request.run_uid, *key, 0).text, "the job to say that it is up")
    return job


def test_a_job_runs_and_succeeds(bench: Bench) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    request = bench.request(SUCCEEDS)
    deployment = bench.cluster.deploy(request)
    assert deployment.created
    assert deployment.key == request.key
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.reason) == (JobPhase.SUCCEEDED, 0, None)
    assert (job.uid, job.name) == (deployment.job_uid, deployment.job_name)
    assert (job.gone, job.stop_asked) == (True, False)
    assert job.started_at
    assert job.ended_at
    assert before <= job.started_at <= job.ended_at <= datetime.now(UTC) + timedelta(seconds=2)


@pytest.mark.parametrize(
    ("behaviour", "code", "reason"),
    [
        (exits(3), 3, "exit_3"),
        (exits(1), 1, "exit_1"),
        (exits(255), 255, "exit_255"),
        (fails_to_run("/no/such/program", 127), 127, "command_not_found"),
        (fails_to_run("/etc/passwd", 126), 126, "not_executable"),
        (ends_by_signal("KILL", 137), 137, "sigkill_unknown"),
        (ends_by_signal("SEGV", 139), 139, "sigsegv"),
        (ends_by_signal("ABRT", 134), 134, "sigabrt"),
        (ends_by_signal("TERM", 143), 143, "sigterm"),
        (ends_by_signal("USR1", 138), 138, "sig10"),
    ],
    ids=lambda value: value.script if isinstance(value, Behaviour) else None,
)
def test_a_failure_has_its_code_and_its_reason(bench: Bench, behaviour: Behaviour, code: int, reason: str) -> None:
    request = bench.request(behaviour)
    bench.cluster.deploy(request)
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.reason, job.stop_asked) == (JobPhase.FAILED, code, reason, False)
    assert job.message


def test_the_same_request_is_the_same_job_also_when_it_is_over(bench: Bench) -> None:
    request = bench.request(SUCCEEDS)
    first = bench.cluster.deploy(request)
    second = bench.cluster.deploy(request)
    bench.until_ended(request)
    third = bench.other_client(bench.installation).deploy(request)
    assert (first.created, second.created, third.created) == (True, False, False)
    assert first.job_uid == second.job_uid == third.job_uid
    assert first.job_name == second.job_name == third.job_name
    assert bench.until_ended(request).uid == first.job_uid
    assert bench.cluster.log(request.run_uid, 0, 1, 0).text == "ran\n"


def test_many_deployers_at_once_make_one_job(bench: Bench) -> None:
    request = bench.request(SUCCEEDS)
    clients = [bench.other_client(bench.installation) for _ in range(8)]
    barrier = threading.Barrier(len(clients))

    def deploy(number: int) -> tuple[bool, str]:
        barrier.wait(20)
        deployment = clients[number].deploy(request)
        return deployment.created, deployment.job_uid

    with ThreadPoolExecutor(len(clients)) as pool:
        answers = list(pool.map(deploy, range(len(clients))))
    assert sum(created for created, _ in answers) == 1
    assert len({uid for _, uid in answers}) == 1
    bench.until_ended(request)
    assert bench.cluster.log(request.run_uid, 0, 1, 0).text == "ran\n"


def test_attempts_and_tasks_are_jobs_of_their_own(bench: Bench) -> None:
    first = bench.request(exits(1))
    others = [
        bench.request(SILENT, run_uid=first.run_uid, attempt=2),
        bench.request(SILENT, run_uid=first.run_uid, task=12),
    ]
    for request in (first, *others):
        assert bench.cluster.deploy(request).created
        bench.until_ended(request)
    jobs = bench.cluster.look(first.run_uid, [(0, 1), (0, 2), (12, 1)]).jobs
    assert {key: job.exit_code for key, job in jobs.items()} == {(0, 1): 1, (0, 2): 0, (12, 1): 0}
    assert len({job.uid for job in jobs.values()}) == len({job.name for job in jobs.values()}) == 3


def test_a_look_at_some_tasks_shows_every_attempt_of_them(bench: Bench) -> None:
    first = bench.request(SILENT)
    again = bench.request(SILENT, run_uid=first.run_uid, attempt=2)
    another = bench.request(SILENT, run_uid=first.run_uid, task=1)
    for request in (first, again, another):
        bench.cluster.deploy(request)
    look = bench.cluster.look(first.run_uid, tasks=[0, 7])
    assert (look.complete, set(look.jobs)) == (True, {(0, 1), (0, 2)})
    assert set(bench.cluster.look(first.run_uid, tasks=[]).jobs) == set()
    assert set(bench.cluster.look(first.run_uid).jobs) == {(0, 1), (0, 2), (1, 1)}
    for request in (first, again, another):
        bench.until_ended(request)


def test_a_key_that_was_used_for_something_else_is_a_conflict(bench: Bench) -> None:
    request = bench.request(SILENT)
    bench.cluster.deploy(request)
    with pytest.raises(Conflict):
        bench.cluster.deploy(bench.request(exits(1), run_uid=request.run_uid))
    with pytest.raises(Conflict):
        bench.cluster.deploy(request.model_copy(update={"arguments": {"depth": "2"}}))
    assert bench.until_ended(request).exit_code == 0


def test_the_jobs_of_another_installation_are_left_alone(bench: Bench) -> None:
    request = bench.request(RUNS_UNTIL_ASKED)
    deploy_and_run(bench, request)
    stranger_id = str(uuid4())
    stranger = bench.other_client(stranger_id)
    with pytest.raises(Conflict):
        stranger.deploy(request.model_copy(update={"installation": stranger_id}))
    look = stranger.look(request.run_uid)
    assert (look.complete, dict(look.jobs)) == (True, {})
    assert stranger.evidence(request.run_uid, [(0, 1)]) == []
    with pytest.raises(NotFound):
        stranger.log(request.run_uid, 0, 1, 0)
    stranger.stop(request.run_uid, [(0, 1)])
    stranger.kill(request.run_uid, [(0, 1)])
    job = bench.job(request)
    assert job
    assert (job.phase, job.stop_asked) == (JobPhase.RUNNING, False)


def test_a_run_without_jobs_is_completely_empty(bench: Bench) -> None:
    bench.cluster.deploy(bench.request(SILENT))
    look = bench.cluster.look(str(uuid4()))
    assert (look.complete, dict(look.jobs)) == (True, {})


@pytest.mark.parametrize("run_uid", ["", "..", "../../etc", "x" * 36, "{00000000-0000-0000-0000-000000000000}"])
def test_a_run_uid_that_is_none_is_bad_input(bench: Bench, run_uid: str) -> None:
    assert not bench.cluster.look(run_uid).complete
    with pytest.raises(BadInput):
        bench.cluster.log(run_uid, 0, 1, 0)
    if len(run_uid) == 36:
        with pytest.raises(BadInput):
            bench.cluster.deploy(bench.request(SILENT, run_uid=run_uid))


def test_a_job_that_is_asked_ends(bench: Bench) -> None:
    request = bench.request(RUNS_UNTIL_ASKED)
    deploy_and_run(bench, request)
    bench.cluster.stop(request.run_uid, [(0, 1)])
    job = bench.until_stopped(request)
    if job:
        assert (job.phase, job.exit_code, job.reason) == (JobPhase.FAILED, 143, "sigterm")
        assert (job.stop_asked, job.gone) == (True, True)


def test_a_job_that_does_not_listen_is_ending_until_it_is_killed(bench: Bench) -> None:
    request = bench.request(IGNORES_BEING_ASKED)
    assert deploy_and_run(bench, request).cause is None
    bench.cluster.stop(request.run_uid, [(0, 1)])
    bench.cluster.stop(request.run_uid, [(0, 1)])
    job = bench.job(request)
    assert job
    assert (job.phase, job.stop_asked, job.gone) == (JobPhase.ENDING, True, False)
    bench.cluster.kill(request.run_uid, [(0, 1)])
    bench.cluster.kill(request.run_uid, [(0, 1)])
    job = bench.until_stopped(request)
    if job:
        assert (job.phase, job.exit_code, job.reason) == (JobPhase.FAILED, 137, "sigkill_unknown")
        assert (job.stop_asked, job.gone) == (True, True)


def test_killing_needs_no_stop_before(bench: Bench) -> None:
    request = bench.request(IGNORES_BEING_ASKED)
    deploy_and_run(bench, request)
    bench.cluster.kill(request.run_uid, [(0, 1)])
    job = bench.until_stopped(request)
    if job:
        assert (job.phase, job.exit_code, job.stop_asked) == (JobPhase.FAILED, 137, True)


def test_what_runs_where_it_can_be_reached_is_not_called_unreached(bench: Bench) -> None:
    request = bench.request(RUNS_UNTIL_ASKED)
    deploy_and_run(bench, request)
    assert bench.cluster.unreached(request.run_uid, [(0, 1), (0, 99), (1, 1)]) == {}
    assert bench.cluster.unreached(str(uuid4()), [(0, 1)]) == {}
    bench.cluster.kill(request.run_uid, [(0, 1)])
    bench.until_stopped(request)
    assert bench.cluster.unreached(request.run_uid, [(0, 1)]) == {}


def test_what_is_gone_is_stopped_already(bench: Bench) -> None:
    request = bench.request(SILENT)
    bench.cluster.deploy(request)
    ended = bench.until_ended(request)
    for end in (bench.cluster.stop, bench.cluster.kill):
        end(request.run_uid, [(0, 1), (1, 1), (0, 99)])
        end(str(uuid4()), [(0, 1)])
    assert bench.job(request) == ended


def test_only_the_jobs_that_are_named_are_stopped(bench: Bench) -> None:
    one = bench.request(RUNS_UNTIL_ASKED)
    other = bench.request(RUNS_UNTIL_ASKED, run_uid=one.run_uid, task=1)
    for request in (one, other):
        bench.cluster.deploy(request)
        bench.until_phase(request, JobPhase.RUNNING)
    bench.cluster.stop(one.run_uid, [(1, 1)])
    stopped = bench.until_stopped(other)
    assert stopped is None or stopped.stop_asked
    job = bench.job(one)
    assert job
    assert (job.phase, job.stop_asked) == (JobPhase.RUNNING, False)


def test_a_job_ends_at_its_deadline(bench: Bench) -> None:
    obedient = bench.request(RUNS_UNTIL_ASKED, deadline_seconds=1)
    stubborn = bench.request(IGNORES_BEING_ASKED, deadline_seconds=1)
    stubborn = stubborn.model_copy(
        update={"crawler": stubborn.crawler.model_copy(update={"grace_seconds": 1}), "run_uid": str(uuid4())}
    )
    for request in (obedient, stubborn):
        bench.cluster.deploy(request)
    for request in (obedient, stubborn):
        job = bench.until_ended(request)
        assert job.phase is JobPhase.FAILED
        assert job.reason == "deadline_exceeded"
        assert (job.stop_asked, job.gone) == (False, True)


def test_a_job_that_runs_is_not_removed(bench: Bench) -> None:
    request = bench.request(RUNS_UNTIL_ASKED)
    deploy_and_run(bench, request)
    assert bench.cluster.remove(request.run_uid, [(0, 1), (1, 1)]) == 0
    job = bench.job(request)
    assert job
    assert (job.phase, job.stop_asked) == (JobPhase.RUNNING, False)


def test_what_was_removed_is_over_and_its_log_is_read_as_before(bench: Bench) -> None:
    request = bench.request(SUCCEEDS)
    bench.cluster.deploy(request)
    bench.until_ended(request)
    for _ in range(2):
        assert bench.cluster.remove(request.run_uid, [(0, 1)]) == 0
        assert bench.cluster.log(request.run_uid, 0, 1, 0).text == "ran\n"
    assert bench.cluster.remove(str(uuid4()), [(0, 1)]) == 0
    if bench.cluster.records_stay:
        assert bench.job(request), "so no removal is ever necessary"


def test_evidence_is_the_end_of_the_log_and_bounded(bench: Bench) -> None:
    request = bench.request(prints(PRINTS_LINES, LINES, 9))
    silent = bench.request(SILENT, run_uid=request.run_uid, task=1)
    endless = prints("head -c 100000 /dev/zero | tr '\\0' '\\377'", b"\377" * 100000)
    long = bench.request(endless, run_uid=request.run_uid, task=2)
    for each in (request, silent, long):
        bench.cluster.deploy(each)
        bench.until_ended(each)
    found = {
        item.task: item for item in bench.cluster.evidence(request.run_uid, [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2)])
    }
    assert sorted(found) == [0, 1, 2]
    lines = found[0].log_tail.splitlines()
    assert lines[-2:] == ["line 300", "\ufffd\ufffd"]
    assert len(lines) == 20
    assert found[0].node
    assert found[0].message
    assert "9" in found[0].message
    assert found[1].log_tail == ""
    assert 0 < len(found[2].log_tail.encode()) <= 4096


def test_a_log_is_read_piece_by_piece_without_breaking_characters(bench: Bench) -> None:
    request = bench.request(prints("yes 'ünï 🕷' | head -c 200000", SPIDERS))
    bench.cluster.deploy(request)
    bench.until_ended(request)
    text, offset, ended = "", 0, False
    while not ended:
        chunk = bench.cluster.log(request.run_uid, 0, 1, offset)
        assert chunk.offset > offset or chunk.ended
        text, offset, ended = text + chunk.text, chunk.offset, chunk.ended
    assert offset == 200000
    assert text.encode()[:199990] == SPIDERS[:199990]
    for size in range(1, 30):
        last = bench.cluster.log(request.run_uid, 0, 1, -size)
        assert last.ended
        assert last.offset == 200000
        assert text.endswith(last.text)
    with pytest.raises(NotFound):
        bench.cluster.log(request.run_uid, 1, 1, 0)


def test_changes_are_told_as_they_happen(bench: Bench) -> None:
    changes = bench.cluster.changes()
    next(changes)
    request = bench.request(SILENT)
    bench.cluster.deploy(request)
    bench.until_ended(request)
    with ThreadPoolExecutor(1) as pool:  # also when every call comes from another thread

        def told() -> bool:
            return request.run_uid in pool.submit(next, changes).result(20)

        until(told, "the change to be told")
    until(lambda: next(changes) == set(), "a silence to be told as well")


def test_a_check_is_one_line(bench: Bench) -> None:
    line = bench.cluster.check()
    assert line
    assert "\n" not in line


def test_what_lives_is_listed_with_its_run_and_its_time(bench: Bench) -> None:
    """Whatever else there is: the list may tell of jobs that are over and take room."""
    before = datetime.now(UTC) - timedelta(seconds=2)
    first = bench.request(RUNS_UNTIL_ASKED, task=3, attempt=2)
    second = bench.request(RUNS_UNTIL_ASKED)
    other = bench.other_client(str(uuid4()))
    for request in (first, second):
        deploy_and_run(bench, request)
    listed = {job.run_uid: job for page in bench.cluster.inventory() for job in page}
    assert listed[first.run_uid].key == (3, 2)
    assert listed[second.run_uid].key == (0, 1)
    made_at = listed[first.run_uid].made_at
    assert made_at is not None
    assert before <= made_at <= datetime.now(UTC) + timedelta(seconds=2)
    assert [job for page in other.inventory() for job in page] == [], "no other installation's"
