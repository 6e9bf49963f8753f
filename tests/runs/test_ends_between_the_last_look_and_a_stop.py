"""A stop puts on record how programs ended just before it deletes their Jobs, which takes the pods along (63, 47, 33).

A task whose program had ended since the last look was STOPPED, as nothing of the pod was left after the stop."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crawler_lifecycle.errors import Fenced, TemporaryError
from crawler_lifecycle.model.looks import OutcomeFacts, TaskRow
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.rules.verdict import with_facts
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, Json, an_api_server
from tests.kit.clusters.doomed import Line, Trouble
from tests.kit.clusters.supervised import Supervised
from tests.kit.data.rows import row

pytestmark = pytest.mark.regression(
    "A task whose program had ended since the last look was STOPPED, as the stop deleted its pod"
)

DONE, FAILED = (TaskStatus.SUCCEEDED, None, 0), (TaskStatus.FAILED, "exit_3", 3)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with an_api_server() as server:
        yield server


def a_run(server: ApiServer, folder: Path, tasks: int = 1, line: Line | None = None) -> Supervised:
    """Return a run whose programs were all seen running by a look."""
    run = Supervised(line or Line(server), folder, tasks)
    for task in range(tasks):
        run.take(("deploy", task, 0))
        for _ in range(2):  # the pod is made, and runs
            run.take(("move", task, 0))
    run.take(("look", 0, 0))
    assert {row.status for row in run.records.tasks.values()} == {TaskStatus.RUNNING}
    return run


def end_unseen(run: Supervised, code: int) -> None:
    """End every pod by itself; the Job controller has not noticed."""
    for pod in run.nature.pods:
        run.nature._end_pod(pod, code)


def vanish(server: ApiServer) -> None:
    server.objects = {"jobs": {}, "pods": {}, "events": {}}


def outcome(run: Supervised, task: int = 0) -> tuple[TaskStatus, str | None, int | None]:
    row = run.records.tasks[task]
    return row.status, row.reason, row.exit_code


@pytest.mark.parametrize(("code", "expected"), [(0, DONE), (3, FAILED)])
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("how", ["stop", "force"])
def test_a_program_that_ended_since_the_last_look_is_judged_by_its_end(
    server: ApiServer, tmp_path: Path, how: str, rounds: int, code: int, expected: object
) -> None:
    run = a_run(server, tmp_path)
    end_unseen(run, code)
    for _ in range(rounds):
        run.take((how, 0, 0))
    vanish(server)
    run.take(("look", 0, 0))
    assert outcome(run) == expected


@pytest.mark.parametrize("trouble", [Trouble.DIES_BEFORE, Trouble.DIES_AFTER])
def test_a_worker_that_dies_in_the_stop_changes_nothing(server: ApiServer, tmp_path: Path, trouble: Trouble) -> None:
    line = Line(server, 0, trouble)
    run = a_run(server, tmp_path, line=line)
    end_unseen(run, 0)
    line.at, line.asked = 1, []
    while line.at <= 6:  # lists of jobs and pods for the evidence, one of pods, and reading and deleting the Job
        run.take(("stop", 0, 0))
        line.at, line.asked = line.at + 1, []
    vanish(server)
    run.take(("look", 0, 0))
    assert outcome(run) == DONE


def test_a_program_that_the_stop_ended_in_order_is_stopped(server: ApiServer, tmp_path: Path) -> None:
    run = a_run(server, tmp_path)
    for _ in range(2):
        run.take(("stop", 0, 0))
        run.take(("move", 0, 0))  # its pod is told, and then ends with 0
    vanish(server)
    run.take(("look", 0, 0))
    assert run.records.tasks[0].status is TaskStatus.STOPPED


def test_a_pod_of_another_job_says_nothing(server: ApiServer, tmp_path: Path) -> None:
    run = a_run(server, tmp_path)
    end_unseen(run, 0)
    for pod in run.nature.pods:
        pod["metadata"]["ownerReferences"][0]["uid"] = "another"
    run.take(("stop", 0, 0))
    vanish(server)
    run.take(("look", 0, 0))
    assert run.records.tasks[0].status is TaskStatus.STOPPED


@pytest.mark.parametrize("status", [403, 500])
def test_pods_that_cannot_be_read_delay_no_stop(server: ApiServer, tmp_path: Path, status: int) -> None:
    run = a_run(server, tmp_path)
    refused = Answered(status, "", "not now")
    server.faults += [Fault("GET", "/pods", refused) for _ in range(20)]
    run.take(("stop", 0, 0))
    [job] = run.nature.jobs
    assert "deletionTimestamp" in job["metadata"]


@pytest.mark.parametrize("how", ["stop", "force"])
@pytest.mark.parametrize("error", [TemporaryError("the database is away"), Fenced("another supervisor has the run")])
def test_a_database_that_does_not_answer_delays_no_stop_but_a_later_supervisor_does(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, how: str
) -> None:
    run = a_run(server, tmp_path, 2)
    run.nature._end_pod(run.nature.pods[0], 0)

    def refuse(_run: RunRef, _changes: list[TaskChange], **_: object) -> int:
        raise error

    monkeypatch.setattr(run.records, "sync", refuse)
    server.seen.clear()
    if isinstance(error, Fenced):
        with pytest.raises(Fenced):
            run.take((how, 0, 0))
        assert server.asked("DELETE") == [], "the jobs and their pods may be a later supervisor's"
    else:
        run.take((how, 0, 0))
        assert all("deletionTimestamp" in job["metadata"] for job in run.nature.jobs)


@pytest.mark.parametrize("how", ["stop", "force"])
def test_a_fault_in_the_reading_of_facts_delays_no_stop(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    run = a_run(server, tmp_path)
    end_unseen(run, 0)

    def overflow(*_: object) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr("crawler_lifecycle.clusters.kubernetes.act.stopping.facts_by_uid", overflow)
    run.take((how, 0, 0))
    assert all("deletionTimestamp" in job["metadata"] for job in run.nature.jobs)


def test_many_tasks_cost_no_more_lists_than_one(server: ApiServer, tmp_path: Path) -> None:
    def lists_of_a_stop(tasks: int) -> int:
        vanish(server)
        run = a_run(server, tmp_path, tasks)
        end_unseen(run, 0)
        server.seen.clear()
        run.take(("stop", 0, 0))
        assert {outcome(run, task)[2] for task in range(tasks)} == {0}
        return sum(request.path.endswith("/pods") for request in server.asked("GET"))

    assert lists_of_a_stop(1) == lists_of_a_stop(30) == 2, "one for the evidence, and one for facts and listening"


ENDED = OutcomeFacts(job_uid="job-uid", pod_uid="a-pod", succeeded=True, told_to_end=False, exit_code=0)
TOLD = OutcomeFacts(job_uid="job-uid", pod_uid="a-pod", told_to_end=True)


def test_facts_are_written_once_and_only_about_the_job_on_record() -> None:
    change = with_facts(row(), ENDED)
    assert change is not None
    assert (change.status, change.facts, change.exit_code) == (TaskStatus.RUNNING, ENDED, 0)
    known = replace(row(), facts=ENDED)
    for other in (known, row(job_uid="another"), row(job_uid=None), row(TaskStatus.STOPPED), row(TaskStatus.LOST)):
        assert with_facts(other, ENDED) is None
    assert with_facts(known, TOLD) is None, "it had ended before it was told to"


def test_a_waiting_task_keeps_what_it_is_known_by() -> None:
    waiting = TaskRow(0, TaskStatus.PENDING, 1, 5, "job-uid", cause="sidecar_not_started", absent_count=1)
    change = with_facts(waiting, TOLD)
    assert change is not None
    assert (change.cause, change.absent_count, change.version) == ("sidecar_not_started", 1, 5)
    later: Json = change.model_dump()
    assert later["facts"]["told_to_end"] is True
