"""Ports for writing runs: their states, stops, supervisors, exports and notices; their task rows; claims and nudges.

Looks read and write the task rows, and people add tasks. Claims let one process deploy a task, nudges wake a run.
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
        """Return the workflow execution's run; make the run (epoch 1, tasks QUEUED) unless the run exists.

        BadInput if another run of the workflow id is not over: a workflow id stands for one run at a time.
        """

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """Return the run that the workflow execution has made; None without such a run."""

    def get(self, run_id: int) -> RunRecord:
        """Return the run. NotFound without such a run, Conflict if the run belongs to another installation."""

    def current(self, run: RunRef) -> RunRecord:
        """Return the run to its supervisor. NotFound if there is no such run."""

    def set_property(self, run: RunRef, name: str, value: str) -> None: ...

    def note(self, run: RunRef, key: str, event: str, message: str, *, hurried: bool = False) -> None:
        """Add a line to the run's timeline, unless a line with the key is there. `hurried`: as in `Tasks`."""

    def has_note(self, run: RunRef, key: str) -> bool:
        """Return whether the run's timeline has a line with the key."""

    def mark_started(self, run: RunRef, started_at: datetime | None = None) -> RunRecord:
        """Turn INITIALIZING to PROCESSING; any other status stays.

        `started_at`: when the main job started. The present time replaces a missing or impossible value (before the
        run, or in the future).
        """

    def mark_waiting(self, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Write why the run waits (None: no wait). Return the wait's start, which stays as long as the cause."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> None:
        """Write the end of a look: acknowledge its nudge and, if the cluster was observed, note the time."""

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. A run that is over keeps its first end. Conflict while a task is alive."""

    # stops

    def request_stop(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """Write a door's stop in one transaction: intent STOP or FORCE (never back), status STOPPING, and a line with
        the actor, time, reason and door. Stops with the same line are logged once. Over if the run is over, Conflict if
        the run belongs to another installation.
        """

    def log_stop(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """Write a stop that the supervisor received, as `request_stop` does. `ends_as` is kept as the run's reason. A
        run that is over stays as it is."""

    def note_stop_phase(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """Write that the stop has reached the phase. A phase is noted once."""

    def stop_asked_at(self, run_id: int) -> datetime | None:
        """Return when the first stop of the run's present end was requested; None without a stop."""

    def jobs_asked_at(self, run_id: int) -> datetime | None:
        """Return when the first job was asked to end for the run's present end; None without such a request."""

    # supervision: Conflict if the run belongs to another workflow id or installation; Fenced if a later execution has
    # taken over, since a terminated execution must not replace its successor

    def limit_clock(self, run_id: int) -> Clock:
        """Return for how long the run's limit clock has stood still since the run was opened or reopened."""

    def hold_limits(self, run: RunRef, number: int, *, held: bool) -> Clock:
        """Stop the run's limit clock, or let the clock go on. A change with the same number is noted once."""

    def take_over(self, run_id: int, execution: Execution) -> RunRecord:
        """Make the execution the supervisor. The epoch goes up by 1, so writes by an earlier supervisor are refused. A
        run that is over stays as it is.
        """

    def reopen(self, run_id: int, execution: Execution) -> RunRecord:
        """Let a FAILED run go on: intent RUN, PROCESSING if its main job succeeded and else INITIALIZING, and every
        task that did not succeed is QUEUED with its next attempt. A second call by the same execution changes no row.
        Conflict if the run is not FAILED.
        """

    # exports and notices; pipelines read the table of exports, too

    def open_export(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """Return the event's row; make the row (pending) unless the row exists."""

    def export_event(self, event_id: str) -> ExportEvent | None:
        """Return the event as last kept."""

    def settle_export(
        self,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """Write the export's state. `event` is kept as announced, or to be announced; None keeps the earlier event."""

    def owed_exports(self, run_id: int) -> ExportsOwed:
        """Return the unfinished exports of all the run's ends."""

    def explanation(self, run: RunRecord) -> Explanation | None:
        """Return why the run ended; None for an open run, and for a run whose tasks all succeeded."""

    def keep_notice(self, run: RunRef, notice: Notice) -> Notice:
        """Keep the notice with its run and return the notice to send: every try under an id sends the notice kept
        first. Only the last notice of progress is kept.
        """


@dataclass(frozen=True, slots=True)
class Addition:
    """Tasks to add to an open run. `key` identifies the request."""

    run_id: int
    count: int
    key: str
    most_tasks: int
    actor: str | None
    door: str


class Tasks(Protocol):
    """Tasks of a run. A statement reads or writes up to 1,000 tasks.

    `hurried`: a step that must not wait follows the write. The write is tried once, and waits for the locks of other
    writers for seconds only; TemporaryError then.
    """

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Return the task numbers by status, for all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """Return the rows that a verdict needs, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange], *, hurried: bool = False) -> int:
        """Write every change whose row still has the attempt and version from its reading. Return the number of writes.

        An end without a time in its change gets the present time.
        """

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence], *, hurried: bool = False) -> int:
        """Keep evidence with every task that is still at the same attempt. Return how many rows were written."""

    def unexplained(self, run_id: int) -> list[JobKey]:
        """Return the jobs that ended by themselves and have no evidence on record."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """Turn QUEUED to STOPPED. Return how many tasks were turned."""

    def add(self, addition: Addition) -> range:
        """Return the numbers of the new tasks, QUEUED; after an earlier addition with the same key, its tasks.

        The run cannot end meanwhile. Conflict if no task is alive any more, or if the run has to stop or is over.
        """


@dataclass(frozen=True, slots=True)
class Claim:
    """Right to deploy a task, for the token's holder, until the claim expires."""

    run_id: int
    task: int
    token: str
    request: DeploymentRequest


@dataclass(frozen=True, slots=True)
class Backlog:
    """A run with tasks to deploy: QUEUED, or DEPLOYING by an expired claim or by the caller's own claim.

    The caller's own claim remains after a failed request; between two passes the caller has no request under way.
    `in_cluster` counts the remaining tasks that have, or may have, a job.
    """

    run_id: int
    waiting: int
    in_cluster: int
    max_parallel: int | None


@dataclass(frozen=True, slots=True)
class Nudge:
    """A signal for a run's supervisor: its jobs have changed. A run's nudges are numbered."""

    run_id: int
    run_uid: str
    workflow_id: str
    number: int


class Claims(Protocol):
    """Claims to tasks and nudges. A claim is a conditional UPDATE: of two callers at once a single caller succeeds."""

    def claim_main(self, run: RunRef, token: str, expires_in: timedelta) -> Claim | None:
        """Claim task 0 if the task is QUEUED, claimed by the same token, or claimed by an expired claim.

        Return None if the task has its job or is over, or if the run has to stop.
        """

    def backlogs(self, token: str) -> list[Backlog]:
        """Return the runs that are PROCESSING with intent RUN and have child tasks to deploy, oldest first."""

    def in_cluster(self, token: str) -> int:
        """Count the installation's tasks that have, or may have, a job; the caller's own claims do not count."""

    def claim_children(self, run_id: int, token: str, expires_in: timedelta, most: int) -> list[Claim]:
        """Turn up to `most` child tasks to DEPLOYING, only while the run is PROCESSING and its intent RUN.

        Take QUEUED tasks, and DEPLOYING tasks whose claim expired or belongs to the token (see `Backlog`).
        """

    def deployed(self, claim: Claim, deployment: Deployment) -> Intent | None:
        """Turn DEPLOYING to PENDING with the job. Return the run's present intent.

        If the claim was lost, no row changes, and the task's next claim finds the job by its key. But if the task is
        over without the job, or at another attempt, no look ever sees the job: the result is None, and the caller has
        to end the job.
        """

    def failed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> None:
        """Write a failed deployment. If the service `refused` the deployment, there is certainly no job, and the task
        is FAILED with reason `cause`. Otherwise the claim stays until its expiry.
        """

    def explain(self, run_id: int, cause: str) -> None:
        """Write why the run's QUEUED tasks are still queued. The time stays as long as the cause."""

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        """Return the next nudge for every given run that is not over and has acknowledged its last nudge.

        After an error on the way the result has only the nudges claimed so far; the rest can be claimed as before.
        """

    def unanswered_nudges(self) -> list[Nudge]:
        """Return the last nudge of our runs that are not over and have not acknowledged the nudge: a watcher may have
        died before sending.
        """

    def open_among(self, run_uids: Iterable[str]) -> set[str]:
        """Return the given runs that are not over."""
