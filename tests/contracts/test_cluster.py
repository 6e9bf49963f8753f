"""What every cluster does, whatever it is made of."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.domain.looks import JobPhase
from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from tests.clusters import Bench, until

FOR_EVER = "trap '' TERM; echo up; while :; do sleep 0.1; done"
UNTIL_ASKED = "echo up; exec sleep 1000"
ORDERLY = "trap 'echo bye; exit 0' TERM; echo up; sleep 1000 & while :; do wait; done"


def wait_for_output(bench: Bench, run_uid: str, text: str = "up") -> None:
    until(lambda: text in bench.cluster.log(run_uid, 0, 1, 0).text, f"the job to print {text!r}")


def test_a_job_runs_and_succeeds(bench: Bench) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    request = bench.request("echo done")
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
    ("script", "code", "reason"),
    [
        ("exit 3", 3, "exit_3"),
        ("exit 1", 1, "exit_1"),
        ("exit 255", 255, "exit_255"),
        ("/no/such/program", 127, "command_not_found"),
        ("/etc/passwd", 126, "not_executable"),
        ("kill -KILL $$", 137, "sigkill_unknown"),
        ("kill -SEGV $$", 139, "sigsegv"),
        ("kill -ABRT $$", 134, "sigabrt"),
        ("kill -TERM $$", 143, "sigterm"),
        ("kill -USR1 $$", 138, "sig10"),
    ],
)
def test_a_failure_has_its_code_and_its_reason(bench: Bench, script: str, code: int, reason: str) -> None:
    request = bench.request(script)
    bench.cluster.deploy(request)
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.reason, job.stop_asked) == (JobPhase.FAILED, code, reason, False)
    assert job.message


def test_the_same_request_is_the_same_job_also_when_it_is_over(bench: Bench) -> None:
    request = bench.request("echo ran")
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
    request = bench.request("echo ran")
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
    first = bench.request("exit 1")
    others = [
        bench.request("exit 0", run_uid=first.run_uid, attempt=2),
        bench.request("exit 0", run_uid=first.run_uid, task=12),
    ]
    for request in (first, *others):
        assert bench.cluster.deploy(request).created
        bench.until_ended(request)
    jobs = bench.cluster.look(first.run_uid).jobs
    assert {key: job.exit_code for key, job in jobs.items()} == {(0, 1): 1, (0, 2): 0, (12, 1): 0}
    assert len({job.uid for job in jobs.values()}) == len({job.name for job in jobs.values()}) == 3


def test_a_key_that_was_used_for_something_else_is_a_conflict(bench: Bench) -> None:
    request = bench.request("exit 0")
    bench.cluster.deploy(request)
    with pytest.raises(Conflict):
        bench.cluster.deploy(bench.request("exit 1", run_uid=request.run_uid))
    with pytest.raises(Conflict):
        bench.cluster.deploy(request.model_copy(update={"arguments": {"depth": "2"}}))
    assert bench.until_ended(request).exit_code == 0


def test_the_jobs_of_another_installation_are_left_alone(bench: Bench) -> None:
    request = bench.request(UNTIL_ASKED)
    bench.cluster.deploy(request)
    wait_for_output(bench, request.run_uid)
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


def test_the_job_is_told_who_it_is_and_what_it_is_asked(bench: Bench) -> None:
    arguments = {"start url": "https://example.org/?a=b&c='d' \"e\" $HOME `id` $(id) ; \\ %s {0} ünï 🕷", "empty": ""}
    crawler = Crawler(
        name="env",
        command=["/bin/sh", "-c", 'env; printf "<%s>" "$@"', "name"],
        argument_flag="-a",
        environment={"MODE": "fast and\nloose", "CRAWL_TASK": "not yours to set"},
    )
    request = bench.request("", task=2, attempt=3, crawler=crawler, arguments=arguments)
    deployment = bench.cluster.deploy(request)
    assert bench.until_ended(request).exit_code == 0
    output = bench.cluster.log(request.run_uid, 2, 3, 0).text
    assert output.endswith("<-a><start url=" + arguments["start url"] + "><-a><empty=>")
    lines = dict(line.partition("=")[::2] for line in output.splitlines())
    assert json.loads(lines["CRAWL_ARGUMENTS"]) == arguments
    told = {
        "CRAWL_RUN_ID": "7",
        "CRAWL_RUN_UID": request.run_uid,
        "CRAWL_TASK": "2",
        "CRAWL_TASKS": "4",
        "CRAWL_ATTEMPT": "3",
        "CRAWL_JOB_UID": deployment.job_uid,
    }
    assert told.items() <= lines.items()
    assert "MODE=fast and\nloose\n" in output
    assert lines["CRAWL_FILES"]


def test_a_run_without_jobs_is_completely_empty(bench: Bench) -> None:
    bench.cluster.deploy(bench.request("exit 0"))
    look = bench.cluster.look(str(uuid4()))
    assert (look.complete, dict(look.jobs)) == (True, {})


@pytest.mark.parametrize("run_uid", ["", "..", "../../etc", "x" * 36, "{00000000-0000-0000-0000-000000000000}"])
def test_a_run_uid_that_is_none_is_bad_input(bench: Bench, run_uid: str) -> None:
    assert not bench.cluster.look(run_uid).complete
    with pytest.raises(BadInput):
        bench.cluster.log(run_uid, 0, 1, 0)
    if len(run_uid) == 36:
        with pytest.raises(BadInput):
            bench.cluster.deploy(bench.request("exit 0", run_uid=run_uid))


def test_a_job_that_is_asked_ends(bench: Bench) -> None:
    request = bench.request(UNTIL_ASKED)
    bench.cluster.deploy(request)
    wait_for_output(bench, request.run_uid)
    bench.cluster.stop(request.run_uid, [(0, 1)])
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.reason) == (JobPhase.FAILED, 143, "sigterm")
    assert (job.stop_asked, job.gone) == (True, True)


def test_a_job_that_ends_in_order_when_asked_has_succeeded(bench: Bench) -> None:
    request = bench.request(ORDERLY)
    bench.cluster.deploy(request)
    wait_for_output(bench, request.run_uid)
    bench.cluster.stop(request.run_uid, [(0, 1)])
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.stop_asked) == (JobPhase.SUCCEEDED, 0, True)
    assert bench.cluster.log(request.run_uid, 0, 1, 0).text == "up\nbye\n"


def test_a_job_that_does_not_listen_is_ending_until_it_is_killed(bench: Bench) -> None:
    request = bench.request(FOR_EVER)
    bench.cluster.deploy(request)
    wait_for_output(bench, request.run_uid)
    assert bench.until_phase(request, JobPhase.RUNNING).cause is None
    bench.cluster.stop(request.run_uid, [(0, 1)])
    bench.cluster.stop(request.run_uid, [(0, 1)])
    job = bench.job(request)
    assert job
    assert (job.phase, job.stop_asked, job.gone) == (JobPhase.ENDING, True, False)
    bench.cluster.kill(request.run_uid, [(0, 1)])
    bench.cluster.kill(request.run_uid, [(0, 1)])
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.reason) == (JobPhase.FAILED, 137, "sigkill_unknown")
    assert (job.stop_asked, job.gone) == (True, True)


def test_killing_needs_no_stop_before(bench: Bench) -> None:
    request = bench.request(FOR_EVER)
    bench.cluster.deploy(request)
    wait_for_output(bench, request.run_uid)
    bench.cluster.kill(request.run_uid, [(0, 1)])
    job = bench.until_ended(request)
    assert (job.phase, job.exit_code, job.stop_asked) == (JobPhase.FAILED, 137, True)


def test_what_is_gone_is_stopped_already(bench: Bench) -> None:
    request = bench.request("exit 0")
    bench.cluster.deploy(request)
    ended = bench.until_ended(request)
    for end in (bench.cluster.stop, bench.cluster.kill):
        end(request.run_uid, [(0, 1), (1, 1), (0, 99)])
        end(str(uuid4()), [(0, 1)])
    assert bench.job(request) == ended


def test_only_the_jobs_that_are_named_are_stopped(bench: Bench) -> None:
    one = bench.request(UNTIL_ASKED)
    other = bench.request(UNTIL_ASKED, run_uid=one.run_uid, task=1)
    for request in (one, other):
        bench.cluster.deploy(request)
        bench.until_phase(request, JobPhase.RUNNING)
    bench.cluster.stop(one.run_uid, [(1, 1)])
    assert bench.until_ended(other).stop_asked
    job = bench.job(one)
    assert job
    assert (job.phase, job.stop_asked) == (JobPhase.RUNNING, False)


def test_a_job_ends_at_its_deadline(bench: Bench) -> None:
    obedient = bench.request(UNTIL_ASKED, deadline_seconds=1)
    stubborn = bench.request(FOR_EVER, deadline_seconds=1)
    stubborn = stubborn.model_copy(
        update={"crawler": stubborn.crawler.model_copy(update={"grace_seconds": 1}), "run_uid": str(uuid4())}
    )
    for request in (obedient, stubborn):
        bench.cluster.deploy(request)
    for request, code in ((obedient, 143), (stubborn, 137)):
        job = bench.until_ended(request)
        assert (job.phase, job.reason, job.exit_code) == (JobPhase.FAILED, "deadline_exceeded", code)
        assert (job.stop_asked, job.gone) == (False, True)


def test_evidence_is_the_end_of_the_log_and_bounded(bench: Bench) -> None:
    request = bench.request("i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; printf '\\377\\303'; exit 9")
    silent = bench.request("exit 0", run_uid=request.run_uid, task=1)
    long = bench.request("head -c 100000 /dev/zero | tr '\\0' '\\377'", run_uid=request.run_uid, task=2)
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
    request = bench.request("yes 'ünï 🕷' | head -c 200000")
    bench.cluster.deploy(request)
    bench.until_ended(request)
    text, offset, ended = "", 0, False
    while not ended:
        chunk = bench.cluster.log(request.run_uid, 0, 1, offset)
        assert chunk.offset > offset or chunk.ended
        text, offset, ended = text + chunk.text, chunk.offset, chunk.ended
    assert offset == 200000
    assert text.encode()[:199990] == ("ünï 🕷\n" * 20000).encode()[:199990]
    for size in range(1, 30):
        last = bench.cluster.log(request.run_uid, 0, 1, -size)
        assert last.ended
        assert last.offset == 200000
        assert text.endswith(last.text)
    with pytest.raises(NotFound):
        bench.cluster.log(request.run_uid, 1, 1, 0)


def test_a_log_can_be_followed_while_the_job_runs(bench: Bench) -> None:
    request = bench.request(ORDERLY)
    bench.cluster.deploy(request)
    wait_for_output(bench, request.run_uid)
    chunk = bench.cluster.log(request.run_uid, 0, 1, 0)
    assert (chunk.text, chunk.offset, chunk.ended) == ("up\n", 3, False)
    bench.cluster.stop(request.run_uid, [(0, 1)])
    bench.until_ended(request)
    rest = bench.cluster.log(request.run_uid, 0, 1, chunk.offset)
    assert (rest.text, rest.ended) == ("bye\n", True)


def test_changes_are_told_as_they_happen(bench: Bench) -> None:
    changes = bench.cluster.changes()
    next(changes)
    request = bench.request("exit 0")
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
