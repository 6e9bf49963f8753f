"""Rules of the audit: rows, descriptions and looks in, findings and permitted repairs out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.notices import NoticeKind
from crawler_lifecycle.contract.states import ExportState, RunStatus
from crawler_lifecycle.domain.looks import JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.domain.reasons import BY_A_STOP

ENDED_WELL = ("completed", "canceled")  # a supervisor ends in this way only when the end of its run is on record
OLD_COPY = "its end is on record, says Temporal: is the database an old copy? `crawlctl resume` goes on all the same"
MOST_NOTICES = 3  # how often an audit repeats a closing notice: some receivers never accept it
MOST_DOUBLED = 8  # 2 to this power hours exceed the age up to which ends are delivered
EXPORTS = frozenset({FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED})
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Patience:
    """Durations after which a state counts as a disagreement."""

    workflow: timedelta = timedelta(seconds=60)  # since a workflow ended, or the run began
    job: timedelta = timedelta(minutes=5)  # since the job's run was over, or the job was made
    handover: timedelta = timedelta(minutes=5)  # since the run was over
    failed_export: timedelta = timedelta(hours=1)  # since the export failed; doubled by every repetition
    insist: timedelta = timedelta(seconds=60)  # since a job was asked to end
    stuck: timedelta = timedelta(minutes=20)  # since a claim expired, a look was due, or the row was written
    replay: timedelta = timedelta(days=7)  # greatest age of an end that is still delivered
    empty: timedelta = timedelta(hours=1)  # since jobs were seen, before an empty cluster is believed
    late: timedelta = timedelta(
        minutes=15
    )  # after the end of a run, during which an earlier request may still create a job


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """The part of a run's row that an audit needs."""

    run_id: int
    run_uid: str
    crawler: str
    status: RunStatus
    reason: str | None
    workflow_id: str
    supervisor_run_id: str  # first execution in the chain of the supervisor
    epoch: int
    begun_at: datetime  # or taken over, if later
    finished_at: datetime | None
    next_look_at: datetime | None
    changed_at: datetime  # every look and every try to deploy writes the row
    export_state: ExportState | None
    end_number: int


@dataclass(frozen=True, slots=True)
class Described:
    """A run's workflow as Temporal describes it. `end`: terminated, failed, ... or missing."""

    is_open: bool
    end: str = ""
    ended_at: datetime | None = None
    is_ours: bool = True  # of the type that supervises runs
    first_execution: str = ""  # first execution in its chain
    of_run: int | None = None  # RunID in its request; 0 for a run of its own; None if unknown
    task_attempt: int = 0  # attempt of the pending workflow task; 0 where none is pending
    task_since: datetime | None = None  # first moment of this task
    problem: str | None = None  # problem of the description; the other fields are unknown then


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the inventory. `run_uid` is None for an unreadable job."""

    name: str
    run_uid: str | None
    key: Key | None
    made_at: datetime | None = None


class Step(StrEnum):
    """The next action on a job."""

    STOP = "stop"
    KILL = "kill"
    REMOVE = "remove"


def unsupervised(
    run: AuditedRun, again: AuditedRun | None, workflow: Described, now: datetime, patience: Patience
) -> Finding | None:
    """Return the finding for a run without a supervisor. `again` is the row read after the description."""
    if workflow.is_open and workflow.is_ours:
        return None
    if again is None or again.status.is_over or again.epoch != run.epoch:
        return None
    since = max(again.begun_at, workflow.ended_at or again.begun_at)
    if now - since < patience.workflow:
        return None
    message = f"it is {again.status}, and its workflow {_seen(workflow)}"
    return _of_run(again, FindingKind.UNSUPERVISED, message).model_copy(
        update={"problem": _in_the_way(again, workflow)}
    )


def _seen(workflow: Described) -> str:
    if workflow.problem:
        return "cannot be described"
    if workflow.is_open:
        return "id is taken by an open workflow of another type"
    return "is not there" if workflow.ended_at is None else f"has {workflow.end} at {_time(workflow.ended_at)}"


def taken(workflow_id: str, workflow: Described) -> str | None:
    """Return the problem if a foreign workflow holds the run's id, which Temporal would join as if it were ours."""
    if not workflow.is_open or workflow.is_ours:
        return None
    return f"its workflow id is taken by an open workflow of another type: end {workflow_id} first"


def _in_the_way(run: AuditedRun, workflow: Described) -> str | None:
    if problem := taken(run.workflow_id, workflow):
        return problem
    return OLD_COPY if _has_ended(run, workflow) else workflow.problem


def _has_ended(run: AuditedRun, workflow: Described) -> bool:
    """Return whether the run is over, as a finished workflow shows: the run's supervisor, a later supervisor, or a
    workflow with a run of its own, since no run gets the id before the earlier run is over."""
    if workflow.end not in ENDED_WELL:
        return False
    is_later = workflow.ended_at is not None and workflow.ended_at > run.begun_at
    return workflow.first_execution == run.supervisor_run_id or (is_later and workflow.of_run in (0, run.run_id))


def is_told(look: Look, rows: Sequence[TaskRow]) -> bool:
    """Return whether the cluster still has all jobs of a run that ended with lost tasks, so that a resume finds their
    end.

    A task without a final status and without a job would be crawled again. Only the last attempt of a task counts."""
    attempts = {row.task: row.attempt for row in rows}
    if not look.complete or any(attempt > attempts.get(task, 0) for task, attempt in look.jobs):
        return False
    needed = (look.jobs.get((row.task, row.attempt)) for row in rows if not row.status.is_over)
    return all(job is not None and job.phase is not JobPhase.UNCLEAR for job in needed)


def overdue(run: AuditedRun, now: datetime, patience: Patience) -> Finding | None:
    """Return the finding for an overdue look. Only a PROCESSING run announces its next look."""
    due = run.next_look_at if run.status is RunStatus.PROCESSING else None
    if now - (due or run.changed_at) < patience.stuck:
        return None
    late = f"a look was due at {_time(due)}" if due else f"nothing was written of it since {_time(run.changed_at)}"
    message = f"it is {run.status}, and {late}: Temporal's page of {run.workflow_id} tells what is in its way"
    return _of_run(run, FindingKind.LOOK_OVERDUE, message)


def claim_expired(run: AuditedRun, tasks: Sequence[int], since: datetime) -> Finding:
    who = "its workflow" if tasks[0] == 0 else "the dispatcher"
    message = (
        f"{len(tasks)} tasks are DEPLOYING by claims that ran out at {_time(since)}: {who} should have taken them up"
    )
    return _of_run(run, FindingKind.CLAIM_EXPIRED, message)


def handover(run: AuditedRun, failed_at: datetime | None, now: datetime, patience: Patience) -> Finding | None:
    """Return the event and archive that are due for a run that is over and has no open workflow."""
    if run.finished_at is None or now - run.finished_at < patience.handover:
        return None
    if run.export_state is ExportState.PENDING:
        return _of_run(run, FindingKind.EXPORT_PENDING, f"it was over at {_time(run.finished_at)} and is not exported")
    if run.export_state is ExportState.FAILED and (failed_at is None or now - failed_at >= patience.failed_export):
        at = f" at {_time(failed_at)}" if failed_at else ""
        return _of_run(run, FindingKind.EXPORT_FAILED, f"its export failed{at}")
    return None


def next_replay(acts: int, last: datetime, patience: Patience) -> datetime:
    """Return when a failed export is due again, ever more rarely, since an archive may be large."""
    return last + patience.failed_export * (1 << min(acts - 1, MOST_DOUBLED))


def is_too_old(run: AuditedRun, now: datetime, patience: Patience) -> bool:
    """Return whether the end is too old to deliver; such an end is only reported."""
    return run.finished_at is not None and now - run.finished_at > patience.replay


def undelivered(
    run: AuditedRun, logged: Collection[str], now: datetime, patience: Patience, *, silent: bool = False
) -> Finding | None:
    """Return whether the closing notice is undelivered. `logged` are the keys of the run's lines about notices.

    `silent`: the closing notice was never tried."""
    if run.finished_at is None or now - run.finished_at < patience.handover or not (silent or _is_untold(run, logged)):
        return None
    return _of_run(run, FindingKind.UNDELIVERED, f"its notice `{_closing(run)}` was not delivered")


def owed(run: AuditedRun, logged: Collection[str], *, silent: bool = False) -> set[FindingKind]:
    """Return all deliveries that are not done, even while a workflow works on them: their findings stay open."""
    exports = EXPORTS if run.export_state in (ExportState.PENDING, ExportState.FAILED) else frozenset()
    return {*exports, FindingKind.UNDELIVERED} if silent or _is_untold(run, logged) else {*exports}


def _is_untold(run: AuditedRun, logged: Collection[str]) -> bool:
    failed, mended = (
        event_id(run.run_uid, f"log:{event}:{_closing(run)}:{run.end_number}") for event in ("undelivered", "delivered")
    )
    return failed in logged and mended not in logged


def _closing(run: AuditedRun) -> NoticeKind:
    return NoticeKind.STOPPED if run.reason in BY_A_STOP else NoticeKind.FINISHED


def disputed(
    jobs: Mapping[str, Sequence[ListedJob]], runs: Mapping[str, AuditedRun], now: datetime, patience: Patience
) -> list[str]:
    """Return the run_uids whose jobs need a look."""
    return [run_uid for run_uid, listed in jobs.items() if _is_disputed(listed, runs.get(run_uid), now, patience)]


def _is_disputed(jobs: Iterable[ListedJob], run: AuditedRun | None, now: datetime, patience: Patience) -> bool:
    if run is None:
        return any(job.made_at is None or now - job.made_at >= patience.job for job in jobs)
    return run.finished_at is not None and run.status.is_over and now - run.finished_at >= patience.job


def steps(look: Look, keys: Iterable[Key], *, acted: bool = False, asked: bool = False) -> dict[Key, Step]:
    """Return the next step for every job of a run without a supervisor.

    `acted`: an earlier step was long enough ago; `asked`: that step asked the jobs to end."""
    needed = {
        key: _step(job, insist=job.overdue or (acted and (asked or bool(job.stop_asked))))
        for key in keys
        if (job := look.jobs.get(key))
    }
    return {key: step for key, step in needed.items() if step}


def _step(job: JobLook, *, insist: bool) -> Step | None:
    if job.removable:
        return Step.REMOVE
    if job.gone:
        return None
    return Step.KILL if insist or job.phase.has_ended else Step.STOP


def leftover(run: AuditedRun, needed: Mapping[Key, Step]) -> Finding:
    finished = _time(run.finished_at) if run.finished_at else "some time ago"
    message = f"it was over at {finished} ({run.status}, {run.reason}), and {_told(needed)}"
    return _of_run(run, FindingKind.LEFTOVER_JOB, message)


def unknown_job(run_uid: str, jobs: Sequence[ListedJob], needed: Mapping[Key, Step]) -> Finding:
    message = f"of run {run_uid}, which this database does not know: {_told(needed)}"
    return Finding(
        kind=FindingKind.UNKNOWN_JOB, subject=run_uid, run_uid=run_uid, message=f"{message} ({_names(jobs)})"
    )


def is_later(run: AuditedRun, jobs: Iterable[ListedJob], attempts: Mapping[int, int], patience: Patience) -> bool:
    """Return whether a job was created after the end in the row: then the row is old, restored from a backup.

    `attempts` has the last attempt of every task in the database."""
    over_at = run.finished_at
    return any(
        (job.key is not None and job.key[1] > attempts.get(job.key[0], 0))
        or (job.made_at is not None and over_at is not None and job.made_at - over_at > patience.late)
        for job in jobs
    )


def later_job(run: AuditedRun, jobs: Sequence[ListedJob], needed: Mapping[Key, Step]) -> Finding:
    """Return the finding for a run whose database row is older than its jobs."""
    finished = _time(run.finished_at) if run.finished_at else "some time ago"
    message = f"it was over at {finished}, but these are later: is the database an old copy? {_told(needed)}"
    return _of_run(run, FindingKind.UNKNOWN_JOB, f"{message} ({_names(jobs)})")


def nameless_job(job: ListedJob) -> Finding:
    message = f"job {job.name} has our label, but does not tell its run: remove it by hand"
    return Finding(kind=FindingKind.UNKNOWN_JOB, subject=job.name, message=message)


def _names(jobs: Iterable[ListedJob]) -> str:
    return ", ".join(sorted(job.name for job in jobs)[:3])


def _told(needed: Mapping[Key, Step]) -> str:
    tasks = ", ".join(str(task) for task, _ in sorted(needed)[:5]) + (", ..." if len(needed) > 5 else "")
    living = sum(step is not Step.REMOVE for step in needed.values())
    return f"{len(needed)} jobs are still there, {living} of them alive (tasks {tasks})"


def _of_run(run: AuditedRun, kind: FindingKind, message: str) -> Finding:
    return Finding(kind=kind, subject=run.run_uid, run_id=run.run_id, run_uid=run.run_uid, message=message)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
