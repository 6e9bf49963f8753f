"""The audit's rules for jobs without a supervisor: the runs to look at, and the next step for every job."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.looks import JobKey, JobLook, Look
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, ListedJob, run_finding, timestamp
from crawler_lifecycle.runs.rules.lingering import removable


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
