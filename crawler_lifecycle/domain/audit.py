"""What disagrees, and may anything be done about it yet? Pure: rows, descriptions and looks in, findings out."""

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

ENDED_WELL = ("completed", "canceled")  # as a supervisor ends only when the end of its run is on record
OLD_COPY = "its end is on record, says Temporal: is the database an old copy? `crawlctl resume` goes on all the same"
MOST_NOTICES = 3  # times that an audit has a closing notice sent again: some receivers never take it
MOST_DOUBLED = 8  # longer than any end is handed over
EXPORTS = frozenset({FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED})
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long something may be as it is before it disagrees."""

    workflow: timedelta = timedelta(seconds=60)  # since a workflow ended, or the run began
    job: timedelta = timedelta(minutes=5)  # since its run was over, or it was made
    handover: timedelta = timedelta(minutes=5)  # since the run was over
    failed_export: timedelta = timedelta(hours=1)  # since it failed; twice as long with each time it was done again
    insist: timedelta = timedelta(seconds=60)  # since a job was asked to end
    stuck: timedelta = timedelta(minutes=20)  # since a claim ran out, a look was due, or the row was written to
    replay: timedelta = timedelta(days=7)  # how old an end may be that is still handed over
    empty: timedelta = timedelta(hours=1)  # since jobs were seen, until a cluster without any job is believed
    late: timedelta = timedelta(minutes=15)  # after its run was over, that a job asked for before may be made


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """As much of a run's row as an audit needs."""

    run_id: int
    run_uid: str
    crawler: str
    status: RunStatus
    reason: str | None
    workflow_id: str
    supervisor_run_id: str  # the first execution of the chain that supervises it
    epoch: int
    begun_at: datetime  # or taken over, whichever was later
    finished_at: datetime | None
    next_look_at: datetime | None
    changed_at: datetime  # each look writes to the row, and each try to deploy
    export_state: ExportState | None
    end_number: int


@dataclass(frozen=True, slots=True)
class Described:
    """A run's workflow, as Temporal itself describes it. `end`: terminated, failed, ... or missing."""

    is_open: bool
    end: str = ""
    ended_at: datetime | None = None
    is_ours: bool = True  # of the type that supervises runs
    first_execution: str = ""  # of its chain
    of_run: int | None = None  # that it was asked to go on with; 0: it made one of its own; None: not known
    problem: str | None = None  # why it could not be described: then nothing else here is known


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job, as a list of all of them shows it. `run_uid` is None if it does not tell."""

    name: str
    run_uid: str | None
    key: Key | None
    made_at: datetime | None = None


class Step(StrEnum):
    """What is done to a job next."""

    STOP = "stop"
    KILL = "kill"
    REMOVE = "remove"


def unsupervised(
    run: AuditedRun, again: AuditedRun | None, workflow: Described, now: datetime, patience: Patience
) -> Finding | None:
    """`again`: the row as it is now, after the workflow was described."""
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
    """Temporal would join it, as if it were the run's own."""
    if not workflow.is_open or workflow.is_ours:
        return None
    return f"its workflow id is taken by an open workflow of another type: end {workflow_id} first"


def _in_the_way(run: AuditedRun, workflow: Described) -> str | None:
    if problem := taken(run.workflow_id, workflow):
        return problem
    return OLD_COPY if _has_ended(run, workflow) else workflow.problem


def _has_ended(run: AuditedRun, workflow: Described) -> bool:
    """As its own supervisor knows, or one that took it over later, or one whose own run got the id: no run does before
    the last one that had it is over."""
    if workflow.end not in ENDED_WELL:
        return False
    is_later = workflow.ended_at is not None and workflow.ended_at > run.begun_at
    return workflow.first_execution == run.supervisor_run_id or (is_later and workflow.of_run in (0, run.run_id))


def is_told(look: Look, rows: Sequence[TaskRow]) -> bool:
    """Whether the cluster still tells of a run that ended in what was lost: then going on with it finds its end.

    A task that is not over, and whose job is not there, would be crawled once more; and where a task has got another
    attempt since, the last one counts."""
    attempts = {row.task: row.attempt for row in rows}
    if not look.complete or any(attempt > attempts.get(task, 0) for task, attempt in look.jobs):
        return False
    needed = (look.jobs.get((row.task, row.attempt)) for row in rows if not row.status.is_over)
    return all(job is not None and job.phase is not JobPhase.UNCLEAR for job in needed)


def overdue(run: AuditedRun, now: datetime, patience: Patience) -> Finding | None:
    """Of a run whose workflow is open. Only between the looks of a run that is PROCESSING is the next one announced."""
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
    """What is to be announced and archived of a run that is over, while no workflow is about it."""
    if run.finished_at is None or now - run.finished_at < patience.handover:
        return None
    if run.export_state is ExportState.PENDING:
        return _of_run(run, FindingKind.EXPORT_PENDING, f"it was over at {_time(run.finished_at)} and is not exported")
    if run.export_state is ExportState.FAILED and (failed_at is None or now - failed_at >= patience.failed_export):
        at = f" at {_time(failed_at)}" if failed_at else ""
        return _of_run(run, FindingKind.EXPORT_FAILED, f"its export failed{at}")
    return None


def next_replay(acts: int, last: datetime, patience: Patience) -> datetime:
    """Of an export that an audit has had done again so often already: an archive may be large."""
    return last + patience.failed_export * (1 << min(acts - 1, MOST_DOUBLED))


def is_too_old(run: AuditedRun, now: datetime, patience: Patience) -> bool:
    """Nobody waits for it any more; it is still reported."""
    return run.finished_at is not None and now - run.finished_at > patience.replay


def undelivered(
    run: AuditedRun, logged: Collection[str], now: datetime, patience: Patience, *, silent: bool = False
) -> Finding | None:
    """`logged`: ids of the run's lines about notices that were not delivered, or were after all.

    `silent`: the closing one was never tried."""
    if run.finished_at is None or now - run.finished_at < patience.handover or not (silent or _is_untold(run, logged)):
        return None
    return _of_run(run, FindingKind.UNDELIVERED, f"its notice `{_closing(run)}` was not delivered")


def owed(run: AuditedRun, logged: Collection[str], *, silent: bool = False) -> set[FindingKind]:
    """What is not done yet, whoever may be at it: a finding of it is not mended, even if it is not found now."""
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
    """Of these runs, by run_uid, those whose jobs need a look."""
    return [run_uid for run_uid, listed in jobs.items() if _is_disputed(listed, runs.get(run_uid), now, patience)]


def _is_disputed(jobs: Iterable[ListedJob], run: AuditedRun | None, now: datetime, patience: Patience) -> bool:
    if run is None:
        return any(job.made_at is None or now - job.made_at >= patience.job for job in jobs)
    return run.finished_at is not None and run.status.is_over and now - run.finished_at >= patience.job


def steps(look: Look, keys: Iterable[Key], *, acted: bool = False, asked: bool = False) -> dict[Key, Step]:
    """What each job of a run needs that nobody supervises. `acted`: something was done about them before, long enough
    ago; `asked`: they were asked to end, then."""
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
    """Whether one of these was made when, as the row has it, all was over: it is the row that is old.

    `attempts`: the last one of each task, as the database has it."""
    over_at = run.finished_at
    return any(
        (job.key is not None and job.key[1] > attempts.get(job.key[0], 0))
        or (job.made_at is not None and over_at is not None and job.made_at - over_at > patience.late)
        for job in jobs
    )


def later_job(run: AuditedRun, jobs: Sequence[ListedJob], needed: Mapping[Key, Step]) -> Finding:
    """Of a run of which the database does not know all."""
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
