"""The run's own activities: create_history_id, add_workflow_id, update_run_started, update_run_status."""

import pytest

from crawler_lifecycle.errors import BadInput, Conflict, Fenced, TemporaryError
from crawler_lifecycle.model.deployment import Crawler, Resources
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import CloseRun, RunInput, RunRef
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.model import CreateHistory, RegisterWorkflow, StartRun
from tests.kit.service.rig import Rig


def test_a_request_is_one_history_however_often_it_is_tried(rig: Rig) -> None:
    step = CreateHistory(request=RunRequest(crawler="books"), workflow_id="crawl-1", first_execution_run_id="first")
    plans = {rig.do(rig.histories.create_history_id, step) for _ in range(3)}
    assert len(plans) == 1
    details = rig.details(plans.pop())
    assert details.run.status is RunStatus.INITIALIZING
    assert details.run.workflow_id == "crawl-1"
    assert [task.status for task in details.tasks] == [TaskStatus.QUEUED] * 2


def test_the_plan_is_filled_in_from_request_crawler_and_installation(rig: Rig) -> None:
    plan = rig.begin(tasks=3, start_limit_seconds=9)
    assert (plan.tasks, plan.start_limit_seconds, plan.grace_seconds) == (3, 9, 7)
    assert rig.details(plan).run.entry.command[0] == "/bin/sh"


def test_a_run_may_have_more_memory_than_its_crawler(rig: Rig) -> None:
    known = rig.deployer.crawler

    def crawler(name: str) -> Crawler:
        return known(name).model_copy(update={"resources": Resources(memory="1Gi")})

    rig.deployer.crawler = crawler  # type: ignore[method-assign]
    run = rig.details(rig.begin(memory_factor=2.5)).run
    assert (run.entry.resources.memory, run.request.memory_factor) == ("2560Mi", 2.5)
    assert rig.details(rig.begin()).run.entry.resources.memory == "1Gi"


@pytest.mark.parametrize("request_", [{"crawler": "unknown"}, {"crawler": "books", "tasks": 51}])
def test_what_cannot_be_run_leaves_no_row(rig: Rig, request_: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        rig.begin(**request_)  # type: ignore[arg-type]
    with rig.database.read() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM histories").scalar() == 0


def test_a_catalogue_that_cannot_be_asked_is_worth_another_try(rig: Rig) -> None:
    rig.deployer.trouble = TemporaryError("nobody answers")
    with pytest.raises(TemporaryError):
        rig.begin()


def test_the_workflow_is_registered_once(rig: Rig) -> None:
    plan = rig.begin()
    for _ in range(2):
        rig.do(rig.histories.add_workflow_id, RegisterWorkflow(run=plan.run, workflow_id="crawl-1"))
    with rig.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT name, value FROM history_properties").all()
    assert [tuple(row) for row in rows] == [("workflow_id", "crawl-1")]


def test_a_run_starts_once_and_never_again(rig: Rig) -> None:
    plan = rig.begin()
    first = rig.do(rig.histories.update_run_started, StartRun(run=plan.run))
    assert rig.do(rig.histories.update_run_started, StartRun(run=plan.run)) == first
    assert first.status is RunStatus.PROCESSING


def _end_tasks(rig: Rig, run: RunRef, *statuses: TaskStatus, reason: str | None = None) -> None:
    rows = rig.tasks.rows(run.run_id, range(len(statuses)))
    changes = [
        TaskChange(task=row.task, attempt=row.attempt, version=row.version, status=status, reason=reason)
        for row, status in zip(rows, statuses, strict=True)
    ]
    assert rig.tasks.sync(run, changes) == len(statuses)


def test_the_first_end_stands(rig: Rig) -> None:
    plan = rig.begin()
    _end_tasks(rig, plan.run, TaskStatus.SUCCEEDED, TaskStatus.SUCCEEDED)
    ended = rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    assert (ended.status, ended.reason) == (RunStatus.COMPLETED, "all_succeeded")
    assert ended.tasks == {TaskStatus.SUCCEEDED: 2}
    again = rig.do(rig.histories.update_run_status, CloseRun(run=plan.run, reason="never_started"))
    assert again == ended
    assert rig.do(rig.histories.update_run_started, StartRun(run=plan.run)).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("reason", "gave_up", "expected"),
    [
        ("deadline_exceeded", "max_duration", "max_duration"),
        ("exit_code_3", "max_duration", "main_job_failed"),
        ("deadline_exceeded", None, "main_job_failed"),
    ],
)
def test_a_time_limit_that_the_jobs_kept_themselves_is_the_reason(
    rig: Rig, reason: str, gave_up: str | None, expected: str
) -> None:
    """While nobody supervised the run its jobs reached their own deadline: no stop found anything of it."""
    plan = rig.begin(max_duration_seconds=60)
    _end_tasks(rig, plan.run, TaskStatus.FAILED, TaskStatus.FAILED, reason=reason)
    ended = rig.do(rig.histories.update_run_status, CloseRun(run=plan.run, reason=gave_up))
    assert (ended.status, ended.reason) == (RunStatus.FAILED, expected)


def test_a_run_does_not_end_while_a_task_is_alive(rig: Rig) -> None:
    plan = rig.begin()
    _end_tasks(rig, plan.run, TaskStatus.SUCCEEDED)
    with pytest.raises(Conflict):
        rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    assert rig.details(plan).run.status is RunStatus.INITIALIZING


def test_an_older_supervisor_writes_nothing(rig: Rig) -> None:
    plan = rig.begin()
    older = plan.run.model_copy(update={"epoch": plan.run.epoch - 1})
    for refused in (
        lambda: rig.do(rig.histories.update_run_started, StartRun(run=older)),
        lambda: rig.do(rig.histories.add_workflow_id, RegisterWorkflow(run=older, workflow_id="x")),
        lambda: rig.do(rig.deployment.run_onetime_crawler, RunInput(run=older)),
    ):
        with pytest.raises(Fenced):
            refused()
    assert rig.details(plan).run.status is RunStatus.INITIALIZING
