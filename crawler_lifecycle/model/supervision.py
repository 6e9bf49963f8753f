"""Input for the audit's rules: runs, workflows and jobs, and how long every rule waits; and helpers for the rules."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.looks import JobKey
from crawler_lifecycle.model.states import ExportState, RunStatus


@dataclass(frozen=True, slots=True)
class AuditPatience:
    """Waiting times for the audit's rules. With shorter times the audit would report passing states.

    A comment names the finding, and the moment from which its waiting time counts.
    """

    # UNSUPERVISED: no workflow of the run is open, since the last workflow ended or the run began
    workflow: timedelta = timedelta(seconds=60)
    # LEFTOVER_JOB: since the end of the run; UNKNOWN_JOB: the database has no such run, since the job was made
    job: timedelta = timedelta(minutes=5)
    # EXPORT_PENDING and UNDELIVERED: a delivery is pending, since the end of the run
    handover: timedelta = timedelta(minutes=5)
    # EXPORT_FAILED: since the failure; the audit repeats the export, and waits twice as long before every further try
    failed_export: timedelta = timedelta(hours=1)
    # a job is killed that still runs, since an earlier audit asked the job to end
    insist: timedelta = timedelta(seconds=60)
    # CLAIM_EXPIRED: the task is still DEPLOYING, since its claim expired
    # LOOK_OVERDUE: since the look was due; without a due look, since the last change of the row
    stuck: timedelta = timedelta(minutes=20)
    # a pending delivery is reported but not repeated any more, since the end of the run
    replay: timedelta = timedelta(days=7)
    # an empty cluster is believed, since an audit last saw jobs; before, the audit reports a problem, because a wrong
    # namespace looks empty, too
    empty: timedelta = timedelta(hours=1)
    # the run's row is an old copy if a job was made later than this after the end of the run; a job made earlier may
    # come from a delayed request
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
    supervisor_run_id: str  # Temporal's id for the first execution in the supervisor's chain
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
    first_execution: str = ""  # first execution in its chain by continue-as-new
    requested_run_id: int | None = None  # RunID in its request; 0: the request made a new run; None: not known
    task_attempt: int = 0  # attempt of the pending workflow task; 0 without a pending task
    task_since: datetime | None = None  # when the pending workflow task began
    problem: str | None = None  # why the description failed; all further fields are unknown then


def foreign_workflow_problem(workflow_id: str, workflow: WorkflowInfo) -> str | None:
    """Return the problem if an open workflow with another type has the run's workflow id; None otherwise.

    A resume would not start a workflow then: Temporal would take the open workflow for the run's own.
    """
    if not workflow.is_open or workflow.is_ours:
        return None
    return f"its workflow id is taken by an open workflow of another type: end {workflow_id} first"


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the cluster's inventory of all jobs. `run_uid` and `key` are None if the labels are unreadable."""

    name: str
    run_uid: str | None
    key: JobKey | None
    made_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's workflow: the run's jobs have changed."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int  # counts the run's nudges, from 1


def run_finding(run: AuditedRun, kind: FindingKind, message: str) -> Finding:
    return Finding(kind=kind, subject=run.run_uid, run_id=run.run_id, run_uid=run.run_uid, message=message)


def timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
