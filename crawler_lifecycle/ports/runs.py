"""Ports for writing runs (states, stops, supervisors, exports, notices), their task rows, claims and nudges.

Looks read and write the task rows, and people add tasks. A claim lets a single process deploy a task. A nudge makes the
workflow of a run look soon.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from crawler_lifecycle.contract.deployment import Crawler, Deployment, DeploymentRequest
from crawler_lifecycle.contract.notices import ExportEvent, Notice
from crawler_lifecycle.contract.records import Explanation, ExportRecord, RunRecord
from crawler_lifecycle.contract.requests import AcceptedRequest, StopRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.contract.steps.looks import TaskChange, TaskEvidence
from crawler_lifecycle.contract.steps.run import Clock, ExportsOwed, RunRef
from crawler_lifecycle.domain.looks import JobKey, TaskRow


@dataclass(frozen=True, slots=True)
class NewRun:
    """A request with the crawler's defaults filled in, and the workflow execution for the run."""

    request: AcceptedRequest
    entry: Crawler
    tasks: int
    workflow_id: str
    first_execution_run_id: str


@dataclass(frozen=True, slots=True)
class Execution:
    """A workflow execution. Executions with the same workflow id follow one another."""

    workflow_id: str
    run_id: str  # Temporal's id for the execution, not a RunID
    began_at: datetime | None = None


class Runs(Protocol):
    """Write access to runs.

    A method with a `RunRef` raises Fenced if the run has another supervisor by now.
    """

    # the run's own states

    def create(self, new: NewRun) -> RunRecord:
        """Return the run that the workflow execution has made; make the run (epoch 1, tasks QUEUED) at the first call.

        BadInput if another run with the workflow id is not over: a workflow id stands for a single run at a time.
        """

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """Return the run that the workflow execution has made; None without such a run."""

    def get(self, run_id: int) -> RunRecord:
        """Return the run. NotFound without such a run, Conflict if the run belongs to another installation."""

    def current(self, run: RunRef) -> RunRecord:
        """Return the run; Fenced if the caller is not its supervisor any more. NotFound if there is no such run."""

    def set_property(self, run: RunRef, name: str, value: str) -> None:
        """Write a value under a name to the run, in place of an earlier value."""

    def note(self, run: RunRef, key: str, event: str, message: str, *, hurried: bool = False) -> None:
        """Add a line to the run's timeline, unless a line with the key exists. `hurried`: see `Tasks`."""

    def has_note(self, run: RunRef, key: str) -> bool:
        """Return whether the run's timeline has a line with the key."""

    def mark_started(self, run: RunRef, started_at: datetime | None = None) -> RunRecord:
        """Change the status INITIALIZING to PROCESSING; any other status stays.

        `started_at`: when the main job started. The present time replaces None and impossible times (before the run, or
        in the future).
        """

    def mark_waiting(self, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Write why the run waits (None: no wait). Return when the wait for this cause began; None without a wait."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> None:
        """Write the end of a look: the acknowledged nudge, the problem and the next look's time.

        `known`: the cluster was observed, so the present time is the time of the run's last look.
        """

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. A run that is over stays as it is. Conflict while a task is alive."""

    # stops

    def request_stop(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """Write a stop that a door received: intent STOP or FORCE (never back), status STOPPING, and a timeline line.

        The line has the actor, time, reason and door, and an equal line is written once. Over if the run is over;
        Conflict if the run belongs to another installation.
        """

    def log_stop(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """Write a stop that the workflow received, as `request_stop` does. A run that is over gets only the line.

        `ends_as`: the limit, if the workflow itself made the stop; the limit is kept as the run's reason. Return the
        run's present intent.
        """

    def note_stop_phase(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """Write a timeline line for the phase that the stop has reached. Every phase is written once per end."""

    def stop_asked_at(self, run_id: int) -> datetime | None:
        """Return when the stop that is under way was first requested; None without a stop."""

    def jobs_asked_at(self, run_id: int) -> datetime | None:
        """Return when the stop that is under way first asked jobs to end; None if no job was asked yet."""

    # Supervision. Conflict if the run belongs to another workflow id or installation. Fenced if a later execution has
    # taken over: an activity of a terminated execution must not replace the present supervisor.

    def limit_clock(self, run_id: int) -> Clock:
        """Return the run's limit clock, with all standstills since the run was created or reopened."""

    def hold_limits(self, run: RunRef, number: int, *, held: bool) -> Clock:
        """Stop the run's limit clock (`held`), or let the clock go on. A repeated number changes nothing."""

    def take_over(self, run_id: int, execution: Execution) -> RunRecord:
        """Make the execution the supervisor. A run that is over stays as it is.

        The epoch goes up by 1, so that writes by an earlier supervisor are refused.
        """

    def reopen(self, run_id: int, execution: Execution) -> RunRecord:
        """Let a FAILED run go on, with the execution as its supervisor. Conflict if the run is not FAILED.

        The intent is RUN again, and the status PROCESSING if the main job succeeded, INITIALIZING otherwise. Every task
        that did not succeed is QUEUED with its next attempt. A second call by the same execution changes no row.
        """

    # exports and notices

    def open_export(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """Return the export's row for the event; make the row (pending) at the first call."""

    def export_event(self, event_id: str) -> ExportEvent | None:
        """Return the event as last written by `open_export` or `settle_export`; None without a row."""

    def settle_export(
        self,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """Write the export's state and, unless `event` is None, the event in its final form. DONE stays DONE."""

    def owed_exports(self, run_id: int) -> ExportsOwed:
        """Return the ends of the run with an unfinished export."""

    def explanation(self, run: RunRecord) -> Explanation | None:
        """Return why the run ended; None for an open run, and for a run whose tasks all succeeded."""

    def keep_notice(self, run: RunRef, notice: Notice) -> Notice:
        """Return the notice to send: the stored notice with the same id, or else this notice, which is then stored.

        So every try under an id sends the same notice. Of the progress notices only the last stays stored.
        """


@dataclass(frozen=True, slots=True)
class Addition:
    """Tasks to add to an open run."""

    run_id: int
    count: int
    key: str  # identifies the request: a repeated request adds no second time
    most_tasks: int  # limit for the run's tasks, with the added tasks
    actor: str | None
    door: str


class Tasks(Protocol):
    """Task rows of a run.

    `hurried`: the caller must not wait for the write. The write is tried a single time, and raises TemporaryError if
    other writers hold their locks for more than some seconds.
    """

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Return the task numbers by status, for all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """Return the rows that a verdict needs, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange], *, hurried: bool = False) -> int:
        """Write every change whose row still has the attempt and version in the change. Return the number of writes.

        The present time replaces a missing time of an end.
        """

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence], *, hurried: bool = False) -> int:
        """Write evidence to every task that is still at the evidence's attempt. Return the number of written rows."""

    def unexplained(self, run_id: int) -> list[JobKey]:
        """Return the present jobs of tasks that ended by themselves and have no evidence on record."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """Change QUEUED tasks to STOPPED, for the reason. Return the number of changed tasks."""

    def add(self, addition: Addition) -> range:
        """Add QUEUED tasks and return their numbers; after an earlier addition with the same key, return its tasks.

        The run cannot end during the call. Conflict if no task is alive any more, or if the run has to stop or is over.
        """


@dataclass(frozen=True, slots=True)
class Claim:
    """Right to deploy a task, until the claim expires. `token` identifies the process that has the claim."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with child tasks to deploy.

    A task is to be deployed if the task is QUEUED, or DEPLOYING by an expired claim or by a claim of the caller. A
    claim of the caller remains only after a failed request: the caller reads backlogs while no request is under way.
    """

    run_id: int
    waiting: int  # number of tasks to deploy
    in_cluster: int  # number of all other tasks that have, or may have, a job
    max_parallel: int | None  # the run's own limit of tasks with a job; None: no limit


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's workflow: the run's jobs have changed."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int  # counts the nudges of the run, from 1


class Claims(Protocol):
    """Claims of tasks and of nudges. A claim is a conditional UPDATE: of two callers at once, a single one succeeds."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0 if the task is QUEUED, or DEPLOYING by an expired claim or a claim with the same token.

        Return None if another claim is valid, if the task has its job or is over, or if the run has to stop.
        """

    def backlogs(self, token: str) -> list[Backlog]:
        """Return the runs, oldest first, that are PROCESSING with intent RUN and have child tasks to deploy."""

    def in_cluster(self, token: str) -> int:
        """Return the number of the installation's tasks that have, or may have, a job, without the caller's claims."""

    def claim_children(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` of the run's tasks to deploy (see `Backlog`): the tasks are DEPLOYING from now on.

        Claim no task unless the run is PROCESSING and its intent is RUN.
        """

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """Change the task from DEPLOYING to PENDING, and write its job. Return the run's present intent.

        If the claim was lost, no row changes, because the task's next claim finds the job by its key. Return None if
        the task is over or at another attempt: then no look ever sees the job, and the caller has to end the job.
        """

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment.

        `refused`: the service will never make the job, so the task is FAILED with the reason `cause`. Otherwise the job
        may exist, and the claim stays until its expiry.
        """

    def explain(self, run_id: int, cause: str) -> None:
        """Write the cause of the run's QUEUED tasks. While the cause stays the same, its time stays, too."""

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Claim the next nudge of every given run that is not over and has acknowledged its last nudge.

        After an error the result has the nudges that were claimed before the error; the other nudges stay unclaimed.
        """

    def unanswered_nudges(self) -> list[Nudge]:
        """Return the unacknowledged nudges of the installation's runs that are not over.

        A watcher may have died after claiming and before sending such a nudge.
        """

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Return the given runs that are not over."""
