"""Ports for writing runs (states, stops, supervisors, exports, notices), their task rows, claims and nudges.

Looks read and write the task rows, and people add tasks. A claim lets a single process deploy a task. A nudge makes a
run's workflow look soon.
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
        """Return the workflow execution's run; make the run (epoch 1, tasks QUEUED) at the first call.

        BadInput if another run with the workflow id is not over: a workflow id stands for a single run at a time.
        """

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """Return the run that the workflow execution has made; None without such a run."""

    def get(self, run_id: int) -> RunRecord:
        """Return the run. NotFound without such a run, Conflict if the run belongs to another installation."""

    def current(self, run: RunRef) -> RunRecord:
        """Return the run; Fenced if the caller is not its supervisor any more. NotFound if there is no such run."""

    def set_property(self, run: RunRef, name: str, value: str) -> None:
        """Write a value under a name to the run, and replace an earlier value."""

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
        """Write why the run waits (None: no wait). Return when the wait for the cause began; None without a wait."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> None:
        """Write a look's end: the acknowledged nudge, the problem and the next look's time.

        `known`: the cluster was observed, so the present time becomes the last look's time.
        """

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. An ended run keeps its first end. Conflict while a task is alive."""

    # stops

    def request_stop(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """Write a stop from a door: intent STOP or FORCE (never back), status STOPPING, and a timeline line.

        The line has the actor, time, reason and door, and an equal line is written once. Over if the run is over;
        Conflict if the run belongs to another installation.
        """

    def log_stop(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """Write a stop from the workflow, as `request_stop` does. An ended run gets only the line.

        `ends_as`: the limit, if the workflow itself made the stop; the limit is kept as the run's reason. Return the
        run's present intent.
        """

    def note_stop_phase(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """Write a timeline line for the stop's present phase. Every phase is written once per end."""

    def stop_asked_at(self, run_id: int) -> datetime | None:
        """Return when the present stop was first requested; None without a stop."""

    def jobs_asked_at(self, run_id: int) -> datetime | None:
        """Return when the present stop first asked jobs to end; None if no job was asked yet."""

    # Supervision. Conflict if the run belongs to another workflow id or installation. Fenced if a later execution has
    # taken over: an activity from a terminated execution must not replace the present supervisor.

    def limit_clock(self, run_id: int) -> Clock:
        """Return the run's limit clock, with all standstills since the run was created or reopened."""

    def hold_limits(self, run: RunRef, number: int, *, held: bool) -> Clock:
        """Stop the run's limit clock (`held`), or let the clock go on.

        `number` identifies the change: a repeated call with the number changes nothing.
        """

    def take_over(self, run_id: int, execution: Execution) -> RunRecord:
        """Make the execution the supervisor. An ended run does not change.

        The epoch goes up by 1, to refuse later writes by an earlier supervisor.
        """

    def reopen(self, run_id: int, execution: Execution) -> RunRecord:
        """Let a FAILED run go on, with the execution as its supervisor. Conflict if the run is not FAILED.

        The intent is RUN again, and the status PROCESSING if the main job succeeded, INITIALIZING otherwise. Every task
        without success is QUEUED with its next attempt. A second call by the same execution changes no row.
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
        """Return the run's ends with an unfinished export."""

    def explanation(self, run: RunRecord) -> Explanation | None:
        """Return why the run ended; None for an open run, and for a run whose tasks all succeeded."""

    def keep_notice(self, run: RunRef, notice: Notice) -> Notice:
        """Store the notice, unless a notice with the same id is stored already. Return the stored notice, to send.

        So every try under an id sends the same notice. Only the last progress notice stays stored.
        """


@dataclass(frozen=True, slots=True)
class Addition:
    """Tasks to add to an open run."""

    run_id: int
    count: int
    key: str  # identifies the request: a repeated request adds no further tasks
    most_tasks: int  # limit for the run's tasks, with the added tasks
    actor: str | None
    door: str


class Tasks(Protocol):
    """A run's task rows.

    `hurried`: the caller must not wait for the write. The write is tried a single time, and raises TemporaryError if
    further writers hold their locks for more than some seconds.
    """

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Return the task numbers by status, for all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """Return the rows that a verdict needs, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange], *, hurried: bool = False) -> int:
        """Write every change if the row still has the change's attempt and version. Return how many rows were written.

        The present time replaces an end's missing time.
        """

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence], *, hurried: bool = False) -> int:
        """Write evidence to every task still at the evidence's attempt. Return how many rows were written."""

    def unexplained(self, run_id: int) -> list[JobKey]:
        """Return the jobs of tasks that ended by themselves and have no evidence on record."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """Change QUEUED tasks to STOPPED, for the reason. Return how many tasks were changed."""

    def add(self, addition: Addition) -> range:
        """Add QUEUED tasks and return their numbers; after an earlier addition with the same key, return its tasks.

        The run cannot end during the call. Conflict if no task is alive any more, or if the run has to stop or is over.
        """


@dataclass(frozen=True, slots=True)
class Claim:
    """Right to deploy a task, until the claim expires. `token` identifies the process with the claim."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with child tasks to deploy.

    A task is to be deployed if the task is QUEUED, or DEPLOYING by an expired claim or the caller's own claim. The
    caller's own claim remains only after a failed request: the caller reads backlogs while no request is under way.
    """

    run_id: int
    waiting: int  # how many tasks to deploy
    in_cluster: int  # how many further tasks have, or may have, a job
    max_parallel: int | None  # the run's own limit for tasks with a job; None: no limit


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's workflow: the run's jobs have changed."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int  # counts the run's nudges, from 1


class Claims(Protocol):
    """Claims for tasks and nudges. A claim is a conditional UPDATE: if two callers claim at once, one succeeds."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0 if the task is QUEUED, or DEPLOYING by an expired claim or a claim with the same token.

        Return None if another claim is valid, if the task has its job or is over, or if the run has to stop.
        """

    def backlogs(self, token: str) -> list[Backlog]:
        """Return the PROCESSING runs with intent RUN and child tasks to deploy, oldest first."""

    def in_cluster(self, token: str) -> int:
        """Return how many tasks in the installation have, or may have, a job, without the caller's claims."""

    def claim_children(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Claim up to `most` tasks to deploy (see `Backlog`): the tasks are DEPLOYING from now on.

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
        """Write the cause for the run's QUEUED tasks. While the cause stays the same, its time stays, too."""

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Claim the next nudge for every given open run, if the run has acknowledged its last nudge.

        After an error the result has the nudges claimed before the error; the rest stay unclaimed.
        """

    def unanswered_nudges(self) -> list[Nudge]:
        """Return the unacknowledged nudges for the installation's open runs.

        A watcher may have died after claiming and before sending such a nudge.
        """

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Return the open runs among the given runs."""
