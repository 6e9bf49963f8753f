"""The audit's rules for open runs: a missing supervisor, an overdue look, an expired claim, a failing workflow, wrong
sums.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from crawler_lifecycle.limits.rules.open_runs import Use
from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.limits import INSTALLATION, in_words
from crawler_lifecycle.model.looks import JobPhase, Look, TaskRow
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.supervision import (
    AuditedRun,
    AuditPatience,
    WorkflowInfo,
    foreign_workflow_problem,
    run_finding,
    timestamp,
)

ENDED_WELL = ("completed", "canceled")  # a supervisor's workflow ends so only after the run's end is stored
OLD_COPY = "its end is recorded, says Temporal: is the database an old copy? `crawlctl resume` continues all the same"


def unsupervised(
    run: AuditedRun, latest: AuditedRun | None, workflow: WorkflowInfo, now: datetime, patience: AuditPatience
) -> Finding | None:
    """Return the finding for a run without a supervisor; None if the run has a supervisor, or is over.

    `run` was read before the workflow was described, and `latest` after: meanwhile the run may have ended, or may have
    got another supervisor.
    """
    if workflow.is_open and workflow.is_ours:
        return None
    if latest is None or latest.status.is_over or latest.epoch != run.epoch:
        return None
    since = max(latest.begun_at, workflow.ended_at or latest.begun_at)
    if now - since < patience.workflow:
        return None
    message = f"it is {latest.status}, and its workflow {_state(workflow)}"
    finding = run_finding(latest, FindingKind.UNSUPERVISED, message)
    return finding.model_copy(update={"problem": _obstacle(latest, workflow)})


def _state(workflow: WorkflowInfo) -> str:
    """Return the words after "its workflow"."""
    if workflow.problem:
        return "cannot be described"
    if workflow.is_open:
        return "id is taken by an open workflow of another type"
    return "is not there" if workflow.ended_at is None else f"has {workflow.end} at {timestamp(workflow.ended_at)}"


def _obstacle(run: AuditedRun, workflow: WorkflowInfo) -> str | None:
    """Return why the audit must not resume the run; None if the audit may."""
    if problem := foreign_workflow_problem(run.workflow_id, workflow):
        return problem
    return OLD_COPY if _proves_the_end(run, workflow) else workflow.problem


def _proves_the_end(run: AuditedRun, workflow: WorkflowInfo) -> bool:
    """Return whether a workflow with a good end proves the run over, although the run's row is open.

    The proof is the recorded supervisor's workflow, or a later workflow with the same id that supervised the run
    or began a new run (its requested RunID is 0): a new run gets the workflow id only when the earlier run is over.
    """
    if workflow.end not in ENDED_WELL:
        return False
    if workflow.first_execution == run.supervisor_run_id:
        return True
    is_later = workflow.ended_at is not None and workflow.ended_at > run.begun_at
    return is_later and workflow.requested_run_id in (0, run.run_id)


def is_held_by_doubt(finding: Finding) -> bool:
    """Return whether the audit would resume the run, but for the suspicion that the database is an old copy."""
    return finding.problem == OLD_COPY


def cluster_has_all_jobs(look: Look, rows: Sequence[TaskRow]) -> bool:
    """Return whether the cluster still has all open tasks' jobs: then a resume finds how the jobs ended.

    False in three cases: the look is incomplete; an open task has no readable job, so a resume would repeat the task;
    or a job has a later attempt than its row, so the row is an old copy.
    """
    attempts = {row.task: row.attempt for row in rows}
    has_later_attempt = any(attempt > attempts.get(task, 0) for task, attempt in look.jobs)
    if not look.complete or has_later_attempt:
        return False
    needed = (look.jobs.get((row.task, row.attempt)) for row in rows if not row.status.is_over)
    return all(job is not None and job.phase is not JobPhase.UNCLEAR for job in needed)


def look_overdue(run: AuditedRun, now: datetime, patience: AuditPatience) -> Finding | None:
    """Return the finding if the run's look is overdue; None otherwise.

    Only a PROCESSING run announces its next look. Otherwise the last write counts in place of the due time.
    """
    due = run.next_look_at if run.status is RunStatus.PROCESSING else None
    if now - (due or run.changed_at) < patience.stuck:
        return None
    delay = (
        f"a look was due at {timestamp(due)}" if due else f"nothing was written of it since {timestamp(run.changed_at)}"
    )
    message = f"it is {run.status}, and {delay}: Temporal's page of {run.workflow_id} shows what is in its way"
    return run_finding(run, FindingKind.LOOK_OVERDUE, message)


def claim_expired(run: AuditedRun, tasks: Sequence[int], since: datetime) -> Finding:
    """Return the finding for tasks still DEPLOYING by claims expired at `since`."""
    # until the main job has started, its workflow claims the task; `tasks` are in order
    is_begun = run.status is not RunStatus.INITIALIZING
    claimant = "its workflow" if tasks[0] == MAIN_TASK and not is_begun else "the dispatcher"
    expired = f"{len(tasks)} tasks are DEPLOYING by claims that ran out at {timestamp(since)}"
    message = f"{expired}: {claimant} should have taken them up"
    return run_finding(run, FindingKind.CLAIM_EXPIRED, message)


FAILING_FROM_ATTEMPT = 3  # attempts count from 1; a second attempt is no failure, but may follow a worker's death
WHAT_TO_DO = (
    "start a worker of the version that began the run, or one without the bug, and it continues on its own; "
    "if that is impossible: `temporal workflow terminate --workflow-id {}`, then `crawlctl resume {}`"
)


def is_failing(workflow: WorkflowInfo) -> bool:
    """Return whether a workflow task in the run's open workflow failed or timed out at least twice in a row."""
    return workflow.is_open and workflow.is_ours and workflow.task_attempt >= FAILING_FROM_ATTEMPT


def failing_workflow(run: AuditedRun, workflow: WorkflowInfo, failure: str) -> Finding:
    """Return the finding for a failing workflow; `failure` is the last failure in a line."""
    since = f" since {timestamp(workflow.task_since)}" if workflow.task_since else ""
    times = workflow.task_attempt - 1
    message = (
        f"it is {run.status}, and its workflow has failed the same task {times} times{since} "
        f"({failure}): the run makes no progress, and a stop only waits. "
        f"{WHAT_TO_DO.format(run.workflow_id, run.run_id)}"
    )
    return run_finding(run, FindingKind.WORKFLOW_FAILING, message)


MOST_SCOPES = 10  # in a message


def miscounted(missing: Mapping[str, Use]) -> list[Finding]:
    """Return a finding for all wrong sums. `missing`: the use missing from the sums, by scope."""
    if not missing:
        return []
    scopes = "; ".join(f"{in_words(scope)} {_figures(missing[scope])}" for scope in list(missing)[:MOST_SCOPES])
    more = f"; and {len(missing) - MOST_SCOPES} more" if len(missing) > MOST_SCOPES else ""
    message = f"sums of what open runs use differ from the rows, which have more (+) or less (-): {scopes}{more}"
    return [Finding(kind=FindingKind.MISCOUNTED, subject=INSTALLATION, message=message)]


def _figures(use: Use) -> str:
    return ", ".join(f"{number:+} {name}" for name, number in asdict(use).items() if number)
