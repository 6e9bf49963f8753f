"""Rule for a run's final status and reason, from the final statuses of its tasks."""

from collections.abc import Mapping

from crawler_lifecycle.model.reasons import (
    ALL_SUCCEEDED,
    DEPLOYMENT_REFUSED,
    MAX_DURATION,
    NEVER_STARTED,
    STOPPED,
    STOPPED_FORCED,
)
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus

# every reason for the end of a run, in words for people
SENTENCES = {
    ALL_SUCCEEDED: "all tasks succeeded",
    "failures_allowed": "tasks failed, and no more than the run allows",
    "main_job_failed": "the main job failed",
    "main_job_lost": "the main job was lost",
    "tasks_failed": "tasks failed",
    "tasks_lost": "tasks were lost",
    DEPLOYMENT_REFUSED: "the deployment of the main job was refused",
    NEVER_STARTED: "the main job did not start within the start limit",
    MAX_DURATION: "the run exceeded its time limit",
    STOPPED: "the run was stopped",
    STOPPED_FORCED: "the run was stopped by force",
}


def outcome(
    tasks: Mapping[TaskStatus, int],
    intent: Intent,
    allowed_failures: float,
    main_job: TaskStatus,
    reason: str | None,
    *,
    out_of_time: bool = False,
) -> tuple[RunStatus, str]:
    """Return the run's final status and reason.

    `tasks`: number of tasks by final status. `main_job`: final status of task 0. `reason`: the time limit, or the
    refused deployment, for which the supervisor ends the run; None otherwise. `allowed_failures`: a share of the tasks,
    from 0 to 1. `out_of_time`: at the duration limit the cluster itself ended a job, so the reason holds even if no
    task is STOPPED.

    A stop or limit that ended no task is no reason: then the tasks decide.
    """
    total = sum(tasks.values())
    succeeded = tasks.get(TaskStatus.SUCCEEDED, 0)
    has_stopped_tasks = tasks.get(TaskStatus.STOPPED, 0) > 0
    if succeeded == total:
        return RunStatus.COMPLETED, ALL_SUCCEEDED
    if reason and (reason == DEPLOYMENT_REFUSED or has_stopped_tasks or out_of_time):
        return RunStatus.FAILED, reason
    if intent is not Intent.RUN and has_stopped_tasks:
        return RunStatus.FAILED, STOPPED_FORCED if intent is Intent.FORCE else STOPPED
    if main_job is not TaskStatus.SUCCEEDED:
        return RunStatus.FAILED, "main_job_lost" if main_job is TaskStatus.LOST else "main_job_failed"
    failed = tasks.get(TaskStatus.FAILED, 0) + tasks.get(TaskStatus.LOST, 0)
    if succeeded + failed == total and failed <= allowed_failures * total:
        return RunStatus.COMPLETED, "failures_allowed"
    return RunStatus.FAILED, "tasks_failed" if tasks.get(TaskStatus.FAILED) else "tasks_lost"


def in_a_sentence(status: RunStatus, reason: str) -> str:
    """Return the status and the reason in words, for the timeline. An unknown reason stays a code."""
    return f"{status}: {SENTENCES.get(reason, reason)}"
