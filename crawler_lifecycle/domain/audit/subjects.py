"""Input of the audit's rules: runs, workflows and jobs, and how long every rule waits.

`run_finding` and `timestamp` are shared helpers.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.states import ExportState, RunStatus
from crawler_lifecycle.domain.looks import JobKey


@dataclass(frozen=True, slots=True)
class AuditPatience:
    """Longest times that a state may last before the audit reports a disagreement."""

    workflow: timedelta = timedelta(seconds=60)  # since a workflow ended, or the run began
    job: timedelta = timedelta(minutes=5)  # since the job's run was over, or the job was made
    handover: timedelta = timedelta(minutes=5)  # since the run was over
    failed_export: timedelta = timedelta(hours=1)  # since the export failed; doubled by every repetition
    insist: timedelta = timedelta(seconds=60)  # since a job was asked to end
    stuck: timedelta = timedelta(minutes=20)  # since a claim expired, a look was due, or the row was written
    replay: timedelta = timedelta(days=7)  # since the run was over; then owed deliveries are reported, not repeated
    empty: timedelta = timedelta(hours=1)  # since jobs were seen, before an empty cluster is believed
    late: timedelta = timedelta(minutes=15)  # since the run was over; a delayed request may create a job until then


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """Part of a run's row, for audits."""

    run_id: int
    run_uid: str
    crawler: str
    status: RunStatus
    reason: str | None
    workflow_id: str
    supervisor_run_id: str  # first execution in the supervisor's chain
    epoch: int
    begun_at: datetime  # or taken over, if later
    finished_at: datetime | None
    next_look_at: datetime | None
    changed_at: datetime  # every look and every try to deploy writes the row
    export_state: ExportState | None
    end_number: int


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """A run's workflow as Temporal describes it. `end`: terminated, failed, ... or missing."""

    is_open: bool
    end: str = ""
    ended_at: datetime | None = None
    is_ours: bool = True  # its type is `RUN_WORKFLOW`
    first_execution: str = ""  # first execution in its chain
    of_run: int | None = None  # RunID in its request; 0: the request made a new run; None: not known
    task_attempt: int = 0  # attempt of the pending workflow task; 0 without a pending task
    task_since: datetime | None = None  # when the pending workflow task began
    problem: str | None = None  # why the description failed; all further fields are unknown then


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the inventory. `run_uid` is None for an unreadable job."""

    name: str
    run_uid: str | None
    key: JobKey | None
    made_at: datetime | None = None


def run_finding(run: AuditedRun, kind: FindingKind, message: str) -> Finding:
    return Finding(kind=kind, subject=run.run_uid, run_id=run.run_id, run_uid=run.run_uid, message=message)


def timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
