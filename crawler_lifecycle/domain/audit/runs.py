"""Rules for open runs: a missing supervisor, an overdue look, an expired claim, a workflow that fails the same task."""

from collections.abc import Sequence
from datetime import datetime

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.audit.subjects import AuditedRun, AuditPatience, WorkflowInfo, run_finding, timestamp
from crawler_lifecycle.domain.looks import JobPhase, Look, TaskRow

ENDED_WELL = ("completed", "canceled")  # a supervisor ends so only when the end of its run is on record
OLD_COPY = "its end is on record, says Temporal: is the database an old copy? `crawlctl resume` goes on all the same"


def unsupervised(
    run: AuditedRun, again: AuditedRun | None, workflow: WorkflowInfo, now: datetime, patience: AuditPatience
) -> Finding | None:
    """Return the finding for a run without a supervisor.

    `run` is the row from before the workflow's description, `again` the row from after: the run may have gone on.
    """
    if workflow.is_open and workflow.is_ours:
        return None
    if again is None or again.status.is_over or again.epoch != run.epoch:
        return None
    since = max(again.begun_at, workflow.ended_at or again.begun_at)
    if now - since < patience.workflow:
        return None
    message = f"it is {again.status}, and its workflow {_state(workflow)}"
    return run_finding(again, FindingKind.UNSUPERVISED, message).model_copy(
        update={"problem": _obstacle(again, workflow)}
    )


def _state(workflow: WorkflowInfo) -> str:
    if workflow.problem:
        return "cannot be described"
    if workflow.is_open:
        return "id is taken by an open workflow of another type"
    return "is not there" if workflow.ended_at is None else f"has {workflow.end} at {timestamp(workflow.ended_at)}"


def taken(workflow_id: str, workflow: WorkflowInfo) -> str | None:
    """Return the problem if a foreign workflow holds the run's id; Temporal would join such a workflow like ours."""
    if not workflow.is_open or workflow.is_ours:
        return None
    return f"its workflow id is taken by an open workflow of another type: end {workflow_id} first"


def _obstacle(run: AuditedRun, workflow: WorkflowInfo) -> str | None:
    if problem := taken(run.workflow_id, workflow):
        return problem
    return OLD_COPY if _has_ended(run, workflow) else workflow.problem


def _has_ended(run: AuditedRun, workflow: WorkflowInfo) -> bool:
    """Return whether a workflow with a good end proves the run over, although the run's row is open.

    The workflow is the supervisor on record, or a later supervisor of the run, or began a run of its own (`of_run` is
    0): a new run gets the workflow id only when the earlier run is over.
    """
    if workflow.end not in ENDED_WELL:
        return False
    is_later = workflow.ended_at is not None and workflow.ended_at > run.begun_at
    return workflow.first_execution == run.supervisor_run_id or (is_later and workflow.of_run in (0, run.run_id))


def is_held_by_doubt(finding: Finding) -> bool:
    """Return whether only the doubt about an old copy of the database keeps the audit from resuming the run."""
    return finding.problem == OLD_COPY


def cluster_has_all_jobs(look: Look, rows: Sequence[TaskRow]) -> bool:
    """Return whether the cluster still has the jobs of all open tasks, so that a resume finds how the jobs ended.

    An open task without a job would be crawled again. A job of a later attempt proves that the row is old.
    """
    attempts = {row.task: row.attempt for row in rows}
    if not look.complete or any(attempt > attempts.get(task, 0) for task, attempt in look.jobs):
        return False
    needed = (look.jobs.get((row.task, row.attempt)) for row in rows if not row.status.is_over)
    return all(job is not None and job.phase is not JobPhase.UNCLEAR for job in needed)


def look_overdue(run: AuditedRun, now: datetime, patience: AuditPatience) -> Finding | None:
    """Return the finding for an overdue look. Only a PROCESSING run announces its next look."""
    due = run.next_look_at if run.status is RunStatus.PROCESSING else None
    if now - (due or run.changed_at) < patience.stuck:
        return None
    late = (
        f"a look was due at {timestamp(due)}" if due else f"nothing was written of it since {timestamp(run.changed_at)}"
    )
    message = f"it is {run.status}, and {late}: Temporal's page of {run.workflow_id} tells what is in its way"
    return run_finding(run, FindingKind.LOOK_OVERDUE, message)


def claim_expired(run: AuditedRun, tasks: Sequence[int], since: datetime) -> Finding:
    claimant = "its workflow" if tasks[0] == 0 else "the dispatcher"
    expired = f"{len(tasks)} tasks are DEPLOYING by claims that ran out at {timestamp(since)}"
    message = f"{expired}: {claimant} should have taken them up"
    return run_finding(run, FindingKind.CLAIM_EXPIRED, message)


ATTEMPTS = 3  # the second attempt may follow a worker's death
WHAT_TO_DO = (
    "start a worker of the version that began the run, or one without the bug, and it goes on by itself; "
    "if that cannot be: `temporal workflow terminate --workflow-id {}`, then `crawlctl resume {}`"
)


def is_failing(workflow: WorkflowInfo) -> bool:
    """Return whether the pending workflow task failed or timed out at least twice in a row."""
    return workflow.is_open and workflow.is_ours and workflow.task_attempt >= ATTEMPTS


def failing_workflow(run: AuditedRun, workflow: WorkflowInfo, failure: str) -> Finding:
    since = f" since {timestamp(workflow.task_since)}" if workflow.task_since else ""
    times = workflow.task_attempt - 1
    message = (
        f"it is {run.status}, and its workflow has failed the same task {times} times{since} "
        f"({failure}): nothing of the run goes on, and a stop only waits. "
        f"{WHAT_TO_DO.format(run.workflow_id, run.run_id)}"
    )
    return run_finding(run, FindingKind.WORKFLOW_FAILING, message)
