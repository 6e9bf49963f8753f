"""What is true of the local cluster alone: processes, capacity, and everything that may be cut off half-way."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.clusters.adapters.job_request import request_hash
from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.clusters.local.creation import new_spec
from crawler_lifecycle.clusters.local.placing import RUNNER
from crawler_lifecycle.clusters.local.records import JobFolder, StartRecord
from crawler_lifecycle.clusters.ports import PlacesTaken
from crawler_lifecycle.errors import Refused, TemporaryError
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.looks import JobPhase
from crawler_lifecycle.model.retries import Retries
from tests.kit.clusters.clusters import LocalBench
from tests.kit.waiting import until

SLEEP = "echo up > up; exec sleep 1000"
ORDERLY = "trap 'echo bye; exit 0' TERM; echo up; sleep 1000 & while :; do wait; done"
STUBBORN = "trap '' TERM; echo up > up; while :; do sleep 0.1; done"


def job_of(local: LocalBench, request: DeploymentRequest) -> tuple[JobPhase, str | None]:
    job = local.job(request)
    assert job
    return job.phase, job.cause


def count(local: LocalBench, request: DeploymentRequest) -> int:
    file = local.files(request) / "count"
    return len(file.read_text().split()) if file.exists() else 0


# What only real programs show


def wait_for_output(local: LocalBench, run_uid: str, text: str = "up") -> None:
    until(lambda: text in local.cluster.log(run_uid, 0, 1, 0).text, f"the job to print {text!r}")


def test_the_job_is_told_who_it_is_and_what_it_is_asked(local: LocalBench) -> None:
    arguments = {"start url": "https://example.org/?a=b&c='d' \"e\" $HOME `id` $(id) ; \\ %s {0} ünï 🕷", "empty": ""}
    crawler = Crawler(
        name="env",
        command=["/bin/sh", "-c", 'env; printf "<%s>" "$@"', "name"],
        argument_flag="-a",
        setting_flag="-s",
        environment={"MODE": "fast and\nloose", "CRAWL_TASK": "not yours to set", "CRAWL_SETTINGS": "nor these"},
    )
    settings = {"DOWNLOAD_DELAY": "0.5", "USER_AGENT": "a 'b' $HOME"}
    request = local.request("", task=2, attempt=3, crawler=crawler, arguments=arguments, settings=settings)
    deployment = local.cluster.deploy(request)
    assert local.until_ended(request).exit_code == 0
    output = local.cluster.log(request.run_uid, 2, 3, 0).text
    assert output.endswith(
        "<-a><start url=" + arguments["start url"] + "><-a><empty=><-s><DOWNLOAD_DELAY=0.5><-s><USER_AGENT=a 'b' $HOME>"
    )
    lines = dict(line.partition("=")[::2] for line in output.splitlines())
    assert (json.loads(lines["CRAWL_ARGUMENTS"]), json.loads(lines["CRAWL_SETTINGS"])) == (arguments, settings)
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


def test_a_job_that_ends_in_order_was_asked_to(local: LocalBench) -> None:
    request = local.request(ORDERLY)
    local.cluster.deploy(request)
    wait_for_output(local, request.run_uid)
    local.cluster.stop(request.run_uid, [(0, 1)])
    job = local.until_ended(request)
    assert (job.phase, job.exit_code, job.stop_asked) == (JobPhase.SUCCEEDED, 0, True)
    assert local.cluster.log(request.run_uid, 0, 1, 0).text == "up\nbye\n"


def test_a_log_can_be_followed_while_the_job_runs(local: LocalBench) -> None:
    request = local.request(ORDERLY)
    local.cluster.deploy(request)
    wait_for_output(local, request.run_uid)
    chunk = local.cluster.log(request.run_uid, 0, 1, 0)
    assert (chunk.text, chunk.offset, chunk.ended) == ("up\n", 3, False)
    local.cluster.stop(request.run_uid, [(0, 1)])
    local.until_ended(request)
    rest = local.cluster.log(request.run_uid, 0, 1, chunk.offset)
    assert (rest.text, rest.ended) == ("bye\n", True)


def test_a_job_ends_at_its_deadline_with_the_code_of_its_program(local: LocalBench) -> None:
    obedient = local.request(SLEEP, deadline_seconds=1)
    stubborn = local.request(STUBBORN, deadline_seconds=1)
    hurried = stubborn.crawler.model_copy(update={"grace_seconds": 1})
    stubborn = stubborn.model_copy(update={"crawler": hurried})
    for request in (obedient, stubborn):
        local.cluster.deploy(request)
    for request, code in ((obedient, 143), (stubborn, 137)):
        job = local.until_ended(request)
        assert (job.phase, job.reason, job.exit_code) == (JobPhase.FAILED, "deadline_exceeded", code)


# The folder of the cluster


@pytest.mark.long
def test_a_folder_that_is_away_is_unknown_and_not_made_anew(local: LocalBench) -> None:
    ends, goes_on = local.request("until [ -e end ]; do sleep 0.05; done; exit 3"), local.request(SLEEP)
    for request in (ends, goes_on):
        local.cluster.deploy(request)
        local.until_phase(request, JobPhase.RUNNING)
    root, elsewhere, runner = local.layout.root, local.folder / "elsewhere", local.runner(ends)
    root.rename(elsewhere)
    for again in (local.cluster.place_waiting, lambda: local.cluster.deploy(local.request(SLEEP)), local.cluster.check):
        with pytest.raises(TemporaryError, match="is missing: is it mounted"):
            again()
    assert next(local.cluster.changes()) == set()
    look = local.cluster.look(ends.run_uid)
    assert (look.complete, look.jobs) == (False, {})
    assert "is missing" in str(look.problem)

    (local.files(ends) / "end").touch()
    until(lambda: not local.living_of(ends), "the job to end while nobody can be told")
    assert runner.is_running()
    assert not root.exists()
    root.mkdir()  # the place where it is mounted
    assert not local.cluster.look(ends.run_uid).complete
    root.rmdir()
    elsewhere.rename(root)
    assert local.until_ended(ends).exit_code == 3
    assert job_of(local, goes_on) == (JobPhase.RUNNING, None)
    local.cluster.place_waiting()


def test_a_job_whose_folder_was_removed_leaves_no_runner(local: LocalBench) -> None:
    request = local.request("until [ -e end ]; do sleep 0.05; done")
    local.cluster.deploy(request)
    local.until_phase(request, JobPhase.RUNNING)
    runner = local.runner(request)
    shutil.rmtree(local.layout.root.rename(local.folder / "gone"))  # at once: the runner writes there
    local.layout.made.unlink()
    (local.files(request) / "end").touch()
    until(lambda: not psutil.pid_exists(runner.pid) or runner.status() == psutil.STATUS_ZOMBIE, "the runner to end")


# What belongs to a job


def test_everything_a_job_leaves_running_is_ended_with_it(local: LocalBench) -> None:
    request = local.request(
        "trap '' TERM HUP; sleep 1000 & (setsid sleep 1000 &) ; (setsid sh -c 'trap \"\" TERM; sleep 1000; :' &);"
        " until [ -e go ]; do sleep 0.05; done; exit 4"
    )
    local.cluster.deploy(request)
    assert until(lambda: len(local.processes(request)) >= 5, "grandchildren to run")
    (local.files(request) / "go").touch()
    job = local.until_ended(request)
    assert (job.exit_code, job.gone) == (4, True)
    assert local.processes(request) == []


def test_a_grandchild_without_our_mark_is_found_by_its_session(local: LocalBench) -> None:
    request = local.request("env -i sleep 1000 & echo $! > pid; sleep 0.2")
    local.cluster.deploy(request)
    pid = int(local.until_file(request, "pid"))
    assert local.until_ended(request).phase is JobPhase.SUCCEEDED
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_stop_reaches_detached_processes_and_says_it_once(local: LocalBench) -> None:
    catch = "trap 'echo {0} >> told' TERM; echo up > {0}; while :; do sleep 0.05; done"
    request = local.request(f'setsid sh -c "{catch.format("child")}" & {catch.format("parent")}')
    local.cluster.deploy(request)
    for name in ("parent", "child"):
        local.until_file(request, name)
    for _ in range(3):
        local.cluster.stop(request.run_uid, [(0, 1)])
    told = local.files(request) / "told"
    until(lambda: told.exists() and len(told.read_text().split()) == 2, "both to be told")
    local.cluster.kill(request.run_uid, [(0, 1)])
    local.until_ended(request)
    assert sorted(told.read_text().split()) == ["child", "parent"]
    assert local.processes(request) == []


def test_a_program_that_has_just_begun_is_seen_with_its_mark() -> None:
    for _ in range(30):
        uid = str(uuid4())
        with subprocess.Popen(
            ["sleep", "1000"], env={"PATH": os.environ["PATH"], processes.UID_VARIABLE: uid}
        ) as begun:
            found = [process.pid for process in processes.of_job(processes.survey(), uid, None)]
            begun.kill()
        assert found == [begun.pid]


# What a job is given


def test_secrets_and_open_files_do_not_reach_a_job(local: LocalBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", "confidential")
    monkeypatch.setenv("TEMPORAL_API_KEY", "confidential")
    for secret in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "PYTHON_REPOSITORY_KEY", "PATH_SECRET"):
        monkeypatch.setenv(secret, "confidential")
    monkeypatch.setenv("LC_MESSAGES", "C")
    monkeypatch.setenv("https_proxy", "proxy:3128")
    script = "env > env; ls /dev/fd > fds; trap > traps; cat; pwd > where"
    with (local.folder / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        request = local.request(script)
        local.cluster.deploy(request)
        assert local.until_ended(request).exit_code == 0
    written = {name: (local.files(request) / name).read_text() for name in ("env", "fds", "traps", "where")}
    assert "confidential" not in written["env"]
    assert {"LC_MESSAGES=C", "https_proxy=proxy:3128", f"PATH={os.environ['PATH']}"} <= {*written["env"].splitlines()}
    assert len(written["fds"].split()) <= 4  # in, out, err, and the listing's own
    assert written["traps"] == ""
    assert Path(written["where"].strip()).samefile(local.files(request))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arguments=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(lambda s: s.strip()),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=100),
        max_size=4,
    )
)
@pytest.mark.long
def test_arguments_arrive_unharmed(local: LocalBench, arguments: dict[str, str]) -> None:
    script = "import json, os, sys; json.dump([sys.argv[1:], os.environ['CRAWL_ARGUMENTS']], open('got', 'w'))"
    crawler = Crawler(name="python", command=[sys.executable, "-I", "-X", "utf8", "-c", script], argument_flag="-a")
    request = local.request("", crawler=crawler, arguments=arguments)
    local.cluster.deploy(request)
    assert local.until_ended(request).exit_code == 0
    argv, told = json.loads((local.files(request) / "got").read_text())
    assert json.loads(told) == arguments
    assert argv == [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]


@pytest.mark.parametrize(
    "changes",
    [
        {"crawler": Crawler(name="image", image="crawler:1")},
        {"crawler": Crawler(name="empty", command=[""])},
        {"crawler": Crawler(name="zero", command=["echo", "a\0b"])},
        {"crawler": Crawler(name="env", command=["true"], environment={"A=B": "c"})},
        {"crawler": Crawler(name="env", command=["true"], environment={"A": "\0"})},
        {"arguments": {f"n{i}": "x" * 4096 for i in range(40)}},
        {"settings": {f"n{i}": "x" * 4096 for i in range(40)}},
        {"installation": str(uuid4())},
    ],
)
def test_what_no_program_can_be_given_is_refused_and_leaves_nothing(
    local: LocalBench, changes: dict[str, object]
) -> None:
    request = local.request("exit 0", **changes)
    with pytest.raises(Refused):
        local.cluster.deploy(request)
    assert not list(local.layout.root.glob("jobs/*/*"))
    assert not list(local.layout.root.glob("waiting/*"))


@pytest.mark.parametrize(
    ("program", "content", "mode", "code", "reason"),
    [
        ("missing", None, 0, 127, "command_not_found"),
        ("plain", "hello", 0o644, 126, "not_executable"),
        ("nonsense", "hello", 0o755, 126, "not_executable"),
        ("interpreter", "#!/no/such/interpreter\n", 0o755, 127, "command_not_found"),
        (".", None, 0, 126, "not_executable"),
    ],
)
def test_a_program_that_cannot_start(
    local: LocalBench, program: str, content: str | None, mode: int, code: int, reason: str
) -> None:
    path = local.folder / program
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    request = local.request("", crawler=Crawler(name="broken", command=[str(path)]))
    local.cluster.deploy(request)
    job = local.until_ended(request)
    assert (job.phase, job.exit_code, job.reason, job.gone) == (JobPhase.FAILED, code, reason, True)
    assert job.message
    assert str(path) in job.message


def test_what_a_job_wrote_is_among_the_files_of_its_run(local: LocalBench) -> None:
    request = local.request("echo data > items.jsonl; echo printed", task=3, attempt=2)
    local.cluster.deploy(request)
    local.until_ended(request)
    written = {
        str(path.relative_to(local.files(request))): path.read_text() for path in local.files(request).rglob("*.*")
    }
    assert written == {"items.jsonl": "data\n", "logs/3-2.log": "printed\n"}


# One job, started once


def deploy_in_another_process(bench: LocalBench, request: DeploymentRequest) -> None:
    bench.client().deploy(request)


@pytest.mark.system
def test_processes_that_deploy_at_once_make_one_job(local: LocalBench) -> None:
    request = local.request("echo x >> count; sleep 0.3")
    context = multiprocessing.get_context("spawn")
    deployers = [context.Process(target=deploy_in_another_process, args=(local, request)) for _ in range(3)]
    for deployer in deployers:
        deployer.start()
    with ThreadPoolExecutor(4) as pool:
        deadline = time.monotonic() + 20
        while any(deployer.is_alive() for deployer in deployers) and time.monotonic() < deadline:
            list(pool.map(local.cluster.deploy, [request] * 4))
    assert [deployer.exitcode for deployer in deployers] == [0, 0, 0]
    assert local.until_ended(request).exit_code == 0
    assert count(local, request) == 1


def test_a_job_goes_on_when_its_deployer_is_killed(local: LocalBench) -> None:
    request = local.request("echo x >> count; sleep 0.5; echo y >> count")
    context = multiprocessing.get_context("spawn")
    deployer = context.Process(target=deploy_in_another_process, args=(local, request))
    deployer.start()
    until(lambda: count(local, request), "the job to start")
    deployer.kill()
    deployer.join(20)
    assert local.until_ended(request).phase is JobPhase.SUCCEEDED
    assert count(local, request) == 2


def claimed_only(local: LocalBench, request: DeploymentRequest) -> None:
    """A deployer that died between the claim and the start."""
    local.client(capacity=0).deploy(request)


@pytest.mark.parametrize("by", ["deploy", "place_waiting", "another deployment"])
def test_a_claim_that_was_never_started_is_started_by_whoever_comes_next(local: LocalBench, by: str) -> None:
    request = local.request("echo x >> count")
    claimed_only(local, request)
    assert job_of(local, request) == (JobPhase.WAITING, "capacity")
    other = local.request("exit 0")
    if by == "deploy":
        assert not local.cluster.deploy(request).created
    elif by == "place_waiting":
        local.cluster.place_waiting()
    else:
        local.cluster.deploy(other)
    assert local.until_ended(request).exit_code == 0
    assert count(local, request) == 1


def test_a_claim_without_a_place_gets_one_from_the_same_request(local: LocalBench) -> None:
    request = local.request("exit 0")
    claimed_only(local, request)
    [place] = local.layout.waiting.iterdir()
    place.unlink()
    assert job_of(local, request) == (JobPhase.WAITING, "starting")
    local.cluster.deploy(request)
    assert local.until_ended(request).exit_code == 0


def test_a_place_without_a_job_is_cleared(local: LocalBench) -> None:
    request = local.request("exit 0")
    local.layout.make()
    spec = new_spec(request, local.folder / "files", local.layout)
    local.client()._placing.enqueue(spec)
    local.cluster.place_waiting()
    assert not list(local.layout.waiting.iterdir())
    assert local.job(request) is None
    assert local.cluster.deploy(request).created
    assert local.until_ended(request).exit_code == 0


def test_a_runner_that_died_before_it_did_anything_is_replaced(local: LocalBench) -> None:
    request = local.request("echo x >> count")
    claimed_only(local, request)
    [place] = local.layout.waiting.iterdir()
    place.rename(local.layout.running / place.name)
    local.cluster.place_waiting()
    assert local.until_ended(request).exit_code == 0
    assert count(local, request) == 1


def test_a_job_whose_start_was_noted_is_never_started_again(local: LocalBench) -> None:
    request = local.request("echo x >> count")
    claimed_only(local, request)
    spec = local.folder_of(request).spec()
    assert spec
    local.folder_of(request).write(StartRecord(spec.uid, spec.installation, time.time(), 1, 1.0))
    local.cluster.place_waiting()
    assert not local.cluster.deploy(request).created
    job = local.until_ended(request)
    assert (job.phase, job.reason, count(local, request)) == (JobPhase.VANISHED, "runner_lost", 0)
    assert not list(local.layout.waiting.iterdir())
    assert not list(local.layout.running.iterdir())


def test_a_second_runner_does_nothing(local: LocalBench) -> None:
    request = local.request("echo x >> count")
    local.cluster.deploy(request)
    ended = local.until_ended(request)
    until(lambda: not local.folder_of(request).has_runner, "the runner to end")
    lock = local.folder_of(request).lock()
    assert lock is not None
    arguments = [str(local.layout.root), ended.name, "8", str(lock)]
    subprocess.run([sys.executable, "-m", RUNNER, *arguments], pass_fds=(lock,), check=True, timeout=20)
    os.close(lock)
    assert (local.job(request), count(local, request)) == (ended, 1)


def test_a_request_is_the_same_when_a_version_adds_a_field_with_a_default(local: LocalBench) -> None:
    class Newer(DeploymentRequest):
        colour: str = "red"

    request = local.request("exit 0")
    assert request_hash(Newer(**request.model_dump())) == request_hash(request)
    assert request_hash(Newer(**request.model_dump(), colour="blue")) != request_hash(request)


def test_settings_are_part_of_a_request(local: LocalBench) -> None:
    request = local.request("exit 0")
    assert request_hash(request.model_copy(update={"settings": {}})) == request_hash(request)
    assert request_hash(request.model_copy(update={"settings": {"DELAY": "2"}})) != request_hash(request)


def test_retries_are_no_part_of_a_request(local: LocalBench) -> None:
    request = local.request("exit 0")
    retried = request.crawler.model_copy(update={"retries": Retries(program=5)})
    assert request_hash(request.model_copy(update={"crawler": retried})) == request_hash(request)


# Capacity


def test_jobs_beyond_the_capacity_wait_and_start_in_order(local: LocalBench) -> None:
    local.cluster = local.client(capacity=1)
    run_uid = str(uuid4())
    script = "echo $CRAWL_TASK >> order; while [ ! -e go ]; do sleep 0.02; done"
    requests = [local.request(script, run_uid=run_uid, task=task) for task in range(6)]
    for request in requests:
        local.cluster.deploy(request)
    local.until_phase(requests[0], JobPhase.RUNNING)
    assert [job_of(local, request) for request in requests[1:]] == [(JobPhase.WAITING, "capacity")] * 5
    waiting = local.job(requests[1])
    assert waiting is not None
    assert waiting.message == "1 of 1 places taken"
    assert "1 of 1 places taken, 5 waiting" in local.cluster.check()
    assert local.cluster.places() == PlacesTaken(taken=1, total=1, waiting=5)
    with local.cluster._placing.exclusive(), ThreadPoolExecutor() as pool:
        reading = pool.submit(local.cluster.places)  # people who look at the page must not delay starts
        assert reading.result(timeout=10).waiting == 5
    (local.files(requests[0]) / "go").touch()
    for request in requests:
        assert local.until_ended(request).exit_code == 0
    order = (local.files(requests[0]) / "order").read_text().split()
    assert order == ["0", "1", "2", "3", "4", "5"]


def test_never_more_than_the_capacity_run_at_once(local: LocalBench) -> None:
    local.cluster = local.client(capacity=3)
    run_uid = str(uuid4())
    script = "mkdir in-$CRAWL_TASK; ls -d in-* | wc -l >> seen; sleep 0.05; rmdir in-$CRAWL_TASK"
    requests = [local.request(script, run_uid=run_uid, task=task) for task in range(15)]
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(local.cluster.deploy, requests))
        for request in requests:
            assert local.until_ended(request).exit_code == 0
    seen = [int(line) for line in (local.files(requests[0]) / "seen").read_text().split()]
    assert len(seen) == 15
    assert max(seen) <= 3


def test_a_killed_runner_frees_its_place_only_with_its_job(local: LocalBench) -> None:
    local.cluster = local.client(capacity=1)
    first, second = local.request(SLEEP), local.request("exit 0")
    local.cluster.deploy(first)
    local.until_file(first, "up")
    local.cluster.deploy(second)
    local.kill_runner(first)
    local.cluster.place_waiting()
    assert job_of(local, second) == (JobPhase.WAITING, "capacity")
    processes.send(local.processes(first), signal.SIGKILL)
    until(lambda: not local.processes(first), "the job to die")
    local.cluster.place_waiting()
    assert local.until_ended(second).exit_code == 0


def test_waiting_jobs_start_although_the_deployer_is_gone(local: LocalBench) -> None:
    local.cluster = local.client(capacity=1)
    requests = [local.request("sleep 0.05") for _ in range(3)]
    for request in requests:
        local.cluster.deploy(request)
    # nobody deploys or places any more: each runner starts the next
    assert [local.until_ended(request).exit_code for request in requests] == [0, 0, 0]


# Death from outside


def test_a_job_without_its_runner_runs_on_and_then_vanishes(local: LocalBench) -> None:
    request = local.request("echo up > up; while [ ! -e go ]; do sleep 0.02; done; echo printed; exit 0")
    local.cluster.deploy(request)
    local.until_file(request, "up")
    local.kill_runner(request)
    assert job_of(local, request) == (JobPhase.RUNNING, "runner_lost")
    (local.files(request) / "go").touch()
    job = local.until_ended(request)
    # it may even have succeeded, but nobody saw it
    assert (job.phase, job.reason, job.exit_code, job.gone) == (JobPhase.VANISHED, "runner_lost", None, True)
    assert job.stop_asked is False
    [evidence] = local.cluster.evidence(request.run_uid, [(0, 1)])
    assert evidence.log_tail == "printed"
    assert evidence.message
    assert local.cluster.log(request.run_uid, 0, 1, 0).ended


def test_a_whole_tree_that_is_killed_has_vanished(local: LocalBench) -> None:
    request = local.request(SLEEP)
    local.cluster.deploy(request)
    local.until_file(request, "up")
    runner = local.runner(request)
    for process in [runner, *runner.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert local.until_ended(request).phase is JobPhase.VANISHED


@pytest.mark.system
def test_a_runner_killed_at_any_moment_of_the_start_leaves_a_truth(local: LocalBench) -> None:
    for number in range(12):
        request = local.request("echo x >> count; exec sleep 1000")
        name = local.cluster.deploy(request).job_name
        runner = until(lambda n=name: _child_about(n), "the runner to be seen")  # type: ignore[misc]
        moment = time.monotonic() + number * 0.01
        while time.monotonic() < moment:
            pass
        runner.kill()
        until(lambda r=request: not local.folder_of(r).has_runner, "the lock to be free")  # type: ignore[misc]
        phase, _ = job_of(local, request)
        alive = local.processes(request)
        assert bool(alive) == (phase is JobPhase.RUNNING), phase
        if phase is JobPhase.WAITING:
            local.cluster.place_waiting()
            until(lambda r=request: count(local, r), "the second runner to start it")  # type: ignore[misc]
        local.cluster.kill(request.run_uid, [(0, 1)])
        assert local.until_ended(request).stop_asked
        assert local.processes(request) == []
        assert count(local, request) <= 1


def _child_about(name: str) -> psutil.Process | None:
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if name in child.cmdline():
                return child
    return None


def test_a_vanished_job_is_told_by_whoever_places_jobs(local: LocalBench) -> None:
    request = local.request(SLEEP)
    local.cluster.deploy(request)
    local.until_file(request, "up")
    local.kill_runner(request)
    processes.send(local.processes(request), signal.SIGKILL)
    until(lambda: not local.processes(request), "the job to die")
    note = local.layout.changed / request.run_uid
    note.unlink()
    local.cluster.place_waiting()
    assert note.exists()


def test_a_runner_is_not_ended_by_a_polite_signal(local: LocalBench) -> None:
    request = local.request("echo up > up; while [ ! -e go ]; do sleep 0.02; done; exit 5")
    local.cluster.deploy(request)
    local.until_file(request, "up")
    runner = local.runner(request)
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        runner.send_signal(signum)
    (local.files(request) / "go").touch()
    assert local.until_ended(request).exit_code == 5


def test_what_a_job_without_its_runner_leaves_behind_is_over_and_can_be_ended(local: LocalBench) -> None:
    """Its runner would have ended it. It counted as the job, which ran until somebody stopped it."""
    request = local.request("(trap '' TERM; exec sleep 1000) & echo up > up; while [ ! -e go ]; do sleep 0.02; done")
    local.cluster.deploy(request)
    local.until_file(request, "up")
    local.kill_runner(request)
    (local.files(request) / "go").touch()
    job = local.until_ended(request)
    assert (job.phase, job.reason, job.gone, job.overdue) == (JobPhase.VANISHED, "runner_lost", False, True)
    local.cluster.kill(request.run_uid, [(0, 1)])
    assert not local.processes(request)
    job = local.until_ended(request)
    assert (job.phase, job.gone) == (JobPhase.VANISHED, True)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_job_without_its_runner_can_be_ended(local: LocalBench, end: str) -> None:
    request = local.request(SLEEP)
    local.cluster.deploy(request)
    local.until_file(request, "up")
    local.kill_runner(request)
    getattr(local.cluster, end)(request.run_uid, [(0, 1)])
    job = local.until_ended(request)
    assert (job.phase, job.stop_asked, job.gone) == (JobPhase.VANISHED, True, True)
    assert local.processes(request) == []


def test_a_reused_pid_is_somebody_else(local: LocalBench) -> None:
    request = local.request(SLEEP)
    claimed_only(local, request)
    spec = local.folder_of(request).spec()
    assert spec
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        created = psutil.Process(stranger.pid).create_time()
        record = StartRecord(spec.uid, spec.installation, time.time(), 1, 1.0, stranger.pid, created)
        local.folder_of(request).write(record)
        assert job_of(local, request) == (JobPhase.RUNNING, "runner_lost")
        local.folder_of(request).write(replace(record, created=created - 60))
        assert local.until_ended(request).phase is JobPhase.VANISHED
        local.cluster.stop(request.run_uid, [(0, 1)])
        local.cluster.kill(request.run_uid, [(0, 1)])
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize(("since_boot", "gone"), [(3600.0, False), (-3600.0, True)])
def test_a_session_counts_only_if_it_is_of_this_boot(local: LocalBench, since_boot: float, gone: bool) -> None:
    request = local.request(SLEEP)
    claimed_only(local, request)
    spec = local.folder_of(request).spec()
    assert spec
    leader = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 1000 > /dev/null & echo $!"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    left = psutil.Process(int(leader.communicate(timeout=20)[0]))
    try:
        created = psutil.boot_time() + since_boot
        local.folder_of(request).write(StartRecord(spec.uid, spec.installation, 1.0, 1, 1.0, leader.pid, created))
        job = local.job(request)
        assert job
        assert (job.phase, job.gone) == (JobPhase.VANISHED, gone)
    finally:
        left.kill()


# Stopping before and during the start


def test_a_waiting_job_that_is_stopped_never_starts(local: LocalBench) -> None:
    local.cluster = local.client(capacity=1)
    first, second, third = local.request(SLEEP), local.request("echo x >> count"), local.request("echo x >> count")
    for request in (first, second, third):
        local.cluster.deploy(request)
    local.cluster.stop(second.run_uid, [(0, 1)])
    local.cluster.kill(third.run_uid, [(0, 1)])
    for request in (second, third):
        job = local.job(request)
        assert job
        assert (job.phase, job.reason, job.exit_code) == (JobPhase.FAILED, "stopped_before_start", None)
        assert (job.stop_asked, job.gone, job.started_at) == (True, True, None)
    local.cluster.kill(first.run_uid, [(0, 1)])
    local.until_ended(first)
    local.cluster.place_waiting()
    assert not local.cluster.deploy(second).created
    until(lambda: not local.folder_of(first).has_runner, "the runner to end")
    assert not local.folder_of(second).has_runner
    assert (count(local, second), count(local, third)) == (0, 0)
    assert not list(local.layout.waiting.iterdir())


@pytest.mark.system
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_stop_at_any_moment_of_the_start_ends_the_job_once_and_for_all(local: LocalBench, end: str) -> None:
    for number in range(12):
        request = local.request("exec sleep 1000")
        started = threading.Thread(target=local.cluster.deploy, args=(request,))
        started.start()
        until(lambda r=request: local.layout.run(r.run_uid).exists(), "the claim")  # type: ignore[misc]
        moment = time.monotonic() + number * 0.01
        while time.monotonic() < moment:
            pass
        getattr(local.cluster, end)(request.run_uid, [(0, 1)])
        started.join(20)
        local.cluster.stop(request.run_uid, [(0, 1)])  # the claim may have come after the first
        job = local.until_ended(request)
        assert job.phase is JobPhase.FAILED
        assert job.reason in ("stopped_before_start", "sigterm", "sigkill_unknown")
        assert job.stop_asked
        assert local.processes(request) == []


# Damage


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b'{"uid": 5}', b"\xff\xfe", None])
@pytest.mark.parametrize("name", ["spec.json", "started.json", "exit.json"])
def test_a_damaged_record_makes_its_job_unclear_and_no_other(
    local: LocalBench, name: str, content: bytes | None
) -> None:
    broken, fine = local.request("exit 0"), local.request("exit 0")
    fine = fine.model_copy(update={"run_uid": broken.run_uid, "task": 1})
    for request in (broken, fine):
        claimed_only(local, request)
    path = local.folder_of(broken).path / name
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    job = local.job(broken)
    assert job
    assert job.phase is JobPhase.UNCLEAR
    assert job.message
    assert name in job.message
    local.cluster.place_waiting()
    assert local.until_ended(fine).phase is JobPhase.SUCCEEDED
    assert local.job(broken) == job
    if name == "spec.json":
        with pytest.raises(TemporaryError):
            local.cluster.deploy(broken)


def test_an_end_that_cannot_be_written_yet_is_not_lost(local: LocalBench) -> None:
    request = local.request("echo up > up; while [ ! -e go ]; do sleep 0.02; done; exit 6")
    local.cluster.deploy(request)
    local.until_file(request, "up")
    obstacle = local.folder_of(request).path / "exit.json"
    obstacle.mkdir()
    (local.files(request) / "go").touch()
    until(lambda: not local.processes(request), "the job to end")
    assert job_of(local, request)[0] is JobPhase.UNCLEAR
    assert local.folder_of(request).has_runner
    obstacle.rmdir()
    assert local.until_ended(request).exit_code == 6


def test_a_wish_that_cannot_be_written_still_kills(local: LocalBench) -> None:
    request = local.request(STUBBORN)
    local.cluster.deploy(request)
    local.until_file(request, "up")
    obstacle = local.folder_of(request).path / "stop.json"
    obstacle.mkdir()
    with pytest.raises(TemporaryError):
        local.cluster.kill(request.run_uid, [(0, 1)])
    assert local.until_ended(request).exit_code == 137
    assert local.processes(request) == []


def test_a_half_made_job_is_no_job(local: LocalBench) -> None:
    request = local.request("exit 0")
    local.cluster.deploy(request)
    local.until_ended(request)
    run = local.layout.run(request.run_uid)
    for name in ("tmpabc", "crawl-x-1-1", f"crawl-{uuid4().hex}-0-1", f"crawl-{run.name.replace('-', '')}-01-1"):
        (run / name).mkdir()
    (local.layout.new / "tmpdef").mkdir()
    assert list(local.cluster.look(request.run_uid).jobs) == [(0, 1)]


def test_what_cannot_be_listed_is_unknown(local: LocalBench) -> None:
    run_uid = str(uuid4())
    assert not local.cluster.look(run_uid).complete  # the root is not there
    local.cluster.check()
    assert local.cluster.look(run_uid).complete
    local.layout.run(run_uid).write_text("not a folder")
    look = local.cluster.look(run_uid)
    assert not look.complete
    assert look.problem
    assert not look.jobs
    with pytest.raises(TemporaryError):
        LocalCluster(local.folder / "nowhere", local.folder, local.installation, 1).stop(run_uid, [(0, 1)])


def test_a_place_that_cannot_be_written_is_a_temporary_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = LocalBench(tmp_path / "file")
    with pytest.raises(TemporaryError):
        bench.cluster.deploy(bench.request("exit 0"))
    with pytest.raises(TemporaryError):
        bench.cluster.check()


# Cost


def test_a_runner_imports_nothing_heavy() -> None:
    script = f"import sys, {RUNNER}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    assert not {"pydantic", "watchfiles", "asyncio", "sqlalchemy", "temporalio"} & set(done.stdout.split())


def test_a_look_at_many_jobs_is_cheap(local: LocalBench) -> None:
    jobs = 2000
    request = local.request("exit 0")
    local.layout.make()
    for task in range(jobs):
        spec = new_spec(request.model_copy(update={"task": task}), local.folder / "files", local.layout)
        folder = JobFolder(local.layout.job(spec.name))
        folder.path.mkdir(parents=True)
        (folder.path / "spec.json").write_text(json.dumps({name: getattr(spec, name) for name in spec.__slots__}))
    began = time.process_time()
    look = local.cluster.look(request.run_uid)
    assert len(look.jobs) == jobs
    assert time.process_time() - began < 2


def test_what_is_listed_as_living(local: LocalBench) -> None:
    """Waiting, running, and what lives on without its runner; not what is over."""
    assert list(local.cluster.inventory()) == [[]], "nothing was ever deployed"
    done, orphan = local.request("exit 0"), local.request("exec sleep 60")
    for request in (done, orphan):
        local.cluster.deploy(request)
    local.until_ended(done)
    local.until_phase(orphan, JobPhase.RUNNING)
    local.kill_runner(orphan)
    for place in local.layout.running.iterdir():
        place.unlink()
    waiting = local.request("exec sleep 60")
    local.client(capacity=0).deploy(waiting)
    (page,) = local.cluster.inventory()
    assert {job.run_uid for job in page} == {orphan.run_uid, waiting.run_uid}


def test_a_cluster_that_is_away_has_no_list(local: LocalBench) -> None:
    local.cluster.deploy(local.request("exit 0"))
    away = local.layout.root.with_name("away")
    local.layout.root.rename(away)
    try:
        with pytest.raises(TemporaryError, match="missing"):
            list(local.cluster.inventory())
    finally:
        away.rename(local.layout.root)
