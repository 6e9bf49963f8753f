"""Input of the audit's rules: runs, workflows and jobs, and how long every rule waits; and helpers of the rules."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.states import ExportState, RunStatus
from crawler_lifecycle.domain.looks import JobKey


@dataclass(frozen=True, slots=True)
class AuditPatience:
    """Waiting times of the audit's rules. With shorter times the audit would report states that last only a moment."""

    # After this time without an open workflow, the audit reports an open run as UNSUPERVISED.
    workflow: timedelta = timedelta(seconds=60)
    # After this time since its run was over, a job is reported as LEFTOVER_JOB.
    # After this time since its creation, a job without a run in the database is reported as UNKNOWN_JOB.
    job: timedelta = timedelta(minutes=5)
    # After this time since the run was over, an owed delivery is reported as EXPORT_PENDING or UNDELIVERED.
    handover: timedelta = timedelta(minutes=5)
    # After this time since the failure, a failed export is reported as EXPORT_FAILED and repeated. The time until the
    # next repetition doubles with every repetition.
    failed_export: timedelta = timedelta(hours=1)
    # After this time since an audit asked a job to end, the next audit kills the job.
    insist: timedelta = timedelta(seconds=60)
    # After this time since a claim expired, the audit reports CLAIM_EXPIRED.
    # After this time since a look was due (or without a due look since the last write to the run), LOOK_OVERDUE.
    stuck: timedelta = timedelta(minutes=20)
    # After this time since the run was over, owed deliveries are reported and not repeated any more.
    replay: timedelta = timedelta(days=7)
    # After this time since an audit saw a job, an empty cluster is believed. Until then the audit ends with a problem,
    # because a wrong namespace looks empty, too.
    empty: timedelta = timedelta(hours=1)
    # A job made more than this time after its run was over shows that the run's row is an old copy. Until then a
    # delayed request may have made the job.
    late: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """Part of a run's row, for audits."""

    run_id: int
    run_uid: str
    crawler: str
    status: RunStatus
    reason: str | None
    workflow_id: str
    supervisor_run_id: str  # Temporal's id of the first execution in the supervisor's chain of continuations
    epoch: int
    begun_at: datetime  # creation, last reopening or last takeover, whichever is the latest
    finished_at: datetime | None
    next_look_at: datetime | None
    changed_at: datetime  # every look and every try to deploy writes the row
    export_state: ExportState | None
    end_number: int


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """A run's workflow as Temporal describes the workflow."""

    is_open: bool
    end: str = ""  # completed, canceled, failed, terminated, ...; "missing" without a workflow
    ended_at: datetime | None = None  # None: the workflow is open or missing
    is_ours: bool = True  # its type is `RUN_WORKFLOW`
    first_execution: str = ""  # first execution in its chain of continuations
    requested_run_id: int | None = None  # RunID in its request; 0: the request made a new run; None: not known
    task_attempt: int = 0  # attempt of the pending workflow task; 0 without a pending task
    task_since: datetime | None = None  # when the pending workflow task began
    problem: str | None = None  # why the description failed; all further fields are unknown then


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the cluster's list of all jobs. `run_uid` and `key` are None if the job's labels are unreadable."""

    name: str
    run_uid: str | None
    key: JobKey | None
    made_at: datetime | None = None


def run_finding(run: AuditedRun, kind: FindingKind, message: str) -> Finding:
    return Finding(kind=kind, subject=run.run_uid, run_id=run.run_id, run_uid=run.run_uid, message=message)


def timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
