"""The audit's rules for runs: jobs without a supervisor, and open runs in trouble.

For jobs, the rules choose the runs to look at, and the next step for every job. An open run may lack a supervisor, have
an overdue look, an expired claim or a failing workflow, or be missing in the sums of use.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum

from crawler_lifecycle.limits.rules import Use
from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.limits import INSTALLATION, in_words
from crawler_lifecycle.model.looks import JobKey, JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.supervision import (
    AuditedRun,
    AuditPatience,
    ListedJob,
    WorkflowInfo,
    foreign_workflow_problem,
    run_finding,
    timestamp,
)
from crawler_lifecycle.runs.rules.verdict import removable

ENDED_WELL = ("completed", "canceled")  # a supervisor's workflow ends so only after the run's end is stored
OLD_COPY = "its end is recorded, says Temporal: is the database an old copy? `crawlctl resume` continues all the same"
FAILING_FROM_ATTEMPT = 3  # attempts count from 1; a second attempt is no failure, but may follow a worker's death
WHAT_TO_DO = (
    "start a worker of the version that began the run, or one without the bug, and it continues on its own; "
    "if that is impossible: `temporal workflow terminate --workflow-id {}`, then `crawlctl resume {}`"
)
MOST_SCOPES = 10  # in a message


class Step(StrEnum):
    """The next action on a job."""

    STOP = "stop"  # ask the job to end
    KILL = "kill"  # end the job by force
    REMOVE = "remove"  # remove an ended job's object


def disputed(
    jobs: Mapping[str, Sequence[ListedJob]], runs: Mapping[str, AuditedRun], now: datetime, patience: AuditPatience
) -> list[str]:
    """Return the run_uids to look at: the run has jobs, and was over long ago or is not in the database."""
    return [run_uid for run_uid, listed in jobs.items() if _is_disputed(listed, runs.get(run_uid), now, patience)]


def _is_disputed(jobs: Iterable[ListedJob], run: AuditedRun | None, now: datetime, patience: AuditPatience) -> bool:
    if run is None:
        return any(job.made_at is None or now - job.made_at >= patience.job for job in jobs)
    return run.finished_at is not None and run.status.is_over and now - run.finished_at >= patience.job


def steps(look: Look, keys: Iterable[JobKey], *, acted: bool = False, requested: bool = False) -> dict[JobKey, Step]:
    """Return the next step for every job of a run without a supervisor; a job without a step is left out.

    `acted`: an earlier audit stopped, killed or removed jobs here, and the jobs have had time to end since.
    `requested`: the earlier audit asked the jobs to end, without force.
    """
    ended = removable(look)
    needed: dict[JobKey, Step] = {}
    for key in keys:
        job = look.jobs.get(key)
        if job is None:
            continue
        was_asked_in_vain = acted and (requested or bool(job.stop_asked))
        step = Step.REMOVE if key in ended else _step(job, use_force=job.overdue or was_asked_in_vain)
        if step is not None:
            needed[key] = step
    return needed


def _step(job: JobLook, *, use_force: bool) -> Step | None:
    """Return the step for a job, unless the job is removable; None if the job is gone and disappears on its own."""
    if job.gone:
        return None
    # an ended job still has running pods if the job is not gone: a request to end reaches these pods no more
    return Step.KILL if use_force or job.phase.has_ended else Step.STOP


def leftover(run: AuditedRun, needed: Mapping[JobKey, Step]) -> Finding:
    """Return the finding for a run with jobs after its end; `needed` has the next step for every job."""
    finished = timestamp(run.finished_at) if run.finished_at else "some time ago"
    message = f"it was over at {finished} ({run.status}, {run.reason}), and {_summary(needed)}"
    return run_finding(run, FindingKind.LEFTOVER_JOB, message)


def removed_leftover(run_uid: str, removal: str, needed: Mapping[JobKey, Step]) -> Finding:
    """Return the finding for jobs of a run that retention has removed, so that the run was over."""
    message = f"{removal}, and {_summary(needed)}"
    return Finding(kind=FindingKind.LEFTOVER_JOB, subject=run_uid, run_uid=run_uid, message=message)


def unknown_job(run_uid: str, jobs: Sequence[ListedJob], needed: Mapping[JobKey, Step]) -> Finding:
    """Return the finding for jobs without their run in the database."""
    message = f"of run {run_uid}, which this database does not know: {_summary(needed)}"
    return Finding(
        kind=FindingKind.UNKNOWN_JOB, subject=run_uid, run_uid=run_uid, message=f"{message} ({_names(jobs)})"
    )


def is_older_than_jobs(
    run: AuditedRun, jobs: Iterable[ListedJob], attempts: Mapping[int, int], patience: AuditPatience
) -> bool:
    """Return whether the run's row is older than a job, as in a database restored from a backup.

    `attempts` has every task's last attempt in the database.
    """
    return any(_has_later_attempt(job, attempts) or _was_made_after(run, job, patience) for job in jobs)


def _has_later_attempt(job: ListedJob, attempts: Mapping[int, int]) -> bool:
    if job.key is None:
        return False
    task, attempt = job.key
    return attempt > attempts.get(task, 0)  # 0: the database does not know the task


def _was_made_after(run: AuditedRun, job: ListedJob, patience: AuditPatience) -> bool:
    """Return whether the job was made after the run's end, and too late for a delayed request to explain the job."""
    if job.made_at is None or run.finished_at is None:
        return False
    return job.made_at - run.finished_at > patience.late


def later_job(run: AuditedRun, jobs: Sequence[ListedJob], needed: Mapping[JobKey, Step]) -> Finding:
    """Return the finding for a run whose database row is older than its jobs."""
    finished = timestamp(run.finished_at) if run.finished_at else "some time ago"
    message = f"it was over at {finished}, but these are later: is the database an old copy? {_summary(needed)}"
    return run_finding(run, FindingKind.UNKNOWN_JOB, f"{message} ({_names(jobs)})")


def nameless_job(job: ListedJob) -> Finding:
    """Return the finding for a job whose labels do not name its run."""
    message = f"job {job.name} has our label, but does not name its run: remove it by hand"
    return Finding(kind=FindingKind.UNKNOWN_JOB, subject=job.name, message=message)


def _names(jobs: Iterable[ListedJob]) -> str:
    return ", ".join(sorted(job.name for job in jobs)[:3])


def _summary(needed: Mapping[JobKey, Step]) -> str:
    tasks = ", ".join(str(task) for task, _ in sorted(needed)[:5]) + (", ..." if len(needed) > 5 else "")
    alive = sum(step is not Step.REMOVE for step in needed.values())
    return f"{len(needed)} jobs are still there, {alive} of them alive (tasks {tasks})"


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
