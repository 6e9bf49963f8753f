"""Rules for jobs without a supervisor: the runs whose jobs need a look, and the next step for every job."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.domain.audit.subjects import AuditedRun, AuditPatience, ListedJob, run_finding, timestamp
from crawler_lifecycle.domain.lingering import removable
from crawler_lifecycle.domain.looks import JobKey, JobLook, Look


class Step(StrEnum):
    """The next action on a job."""

    STOP = "stop"
    KILL = "kill"
    REMOVE = "remove"


def disputed(
    jobs: Mapping[str, Sequence[ListedJob]], runs: Mapping[str, AuditedRun], now: datetime, patience: AuditPatience
) -> list[str]:
    """Return the run_uids whose jobs need a look."""
    return [run_uid for run_uid, listed in jobs.items() if _is_disputed(listed, runs.get(run_uid), now, patience)]


def _is_disputed(jobs: Iterable[ListedJob], run: AuditedRun | None, now: datetime, patience: AuditPatience) -> bool:
    if run is None:
        return any(job.made_at is None or now - job.made_at >= patience.job for job in jobs)
    return run.finished_at is not None and run.status.is_over and now - run.finished_at >= patience.job


def steps(look: Look, keys: Iterable[JobKey], *, acted: bool = False, requested: bool = False) -> dict[JobKey, Step]:
    """Return the next step for every job of a run without a supervisor.

    `acted`: an earlier audit acted on the run's jobs, and the jobs have had time to end since. `requested`: the action
    asked the jobs to end, without force.
    """
    ended = removable(look)
    needed: dict[JobKey, Step] = {}
    for key in keys:
        job = look.jobs.get(key)
        if job is None:
            continue
        insist = job.overdue or (acted and (requested or bool(job.stop_asked)))
        step = Step.REMOVE if key in ended else _step(job, insist=insist)
        if step is not None:
            needed[key] = step
    return needed


def _step(job: JobLook, *, insist: bool) -> Step | None:
    if job.gone:
        return None
    return Step.KILL if insist or job.phase.has_ended else Step.STOP


def leftover(run: AuditedRun, needed: Mapping[JobKey, Step]) -> Finding:
    finished = timestamp(run.finished_at) if run.finished_at else "some time ago"
    message = f"it was over at {finished} ({run.status}, {run.reason}), and {_summary(needed)}"
    return run_finding(run, FindingKind.LEFTOVER_JOB, message)


def unknown_job(run_uid: str, jobs: Sequence[ListedJob], needed: Mapping[JobKey, Step]) -> Finding:
    message = f"of run {run_uid}, which this database does not know: {_summary(needed)}"
    return Finding(
        kind=FindingKind.UNKNOWN_JOB, subject=run_uid, run_uid=run_uid, message=f"{message} ({_names(jobs)})"
    )


def is_later(run: AuditedRun, jobs: Iterable[ListedJob], attempts: Mapping[int, int], patience: AuditPatience) -> bool:
    """Return whether a job is later than the run's end or attempts on record: then the row comes from a backup.

    `attempts` has the last attempt of every task in the database.
    """
    finished_at = run.finished_at
    return any(
        (job.key is not None and job.key[1] > attempts.get(job.key[0], 0))
        or (job.made_at is not None and finished_at is not None and job.made_at - finished_at > patience.late)
        for job in jobs
    )


def later_job(run: AuditedRun, jobs: Sequence[ListedJob], needed: Mapping[JobKey, Step]) -> Finding:
    """Return the finding for a run whose database row is older than its jobs."""
    finished = timestamp(run.finished_at) if run.finished_at else "some time ago"
    message = f"it was over at {finished}, but these are later: is the database an old copy? {_summary(needed)}"
    return run_finding(run, FindingKind.UNKNOWN_JOB, f"{message} ({_names(jobs)})")


def nameless_job(job: ListedJob) -> Finding:
    message = f"job {job.name} has our label, but does not tell its run: remove it by hand"
    return Finding(kind=FindingKind.UNKNOWN_JOB, subject=job.name, message=message)


def _names(jobs: Iterable[ListedJob]) -> str:
    return ", ".join(sorted(job.name for job in jobs)[:3])


def _summary(needed: Mapping[JobKey, Step]) -> str:
    tasks = ", ".join(str(task) for task, _ in sorted(needed)[:5]) + (", ..." if len(needed) > 5 else "")
    living = sum(step is not Step.REMOVE for step in needed.values())
    return f"{len(needed)} jobs are still there, {living} of them alive (tasks {tasks})"
