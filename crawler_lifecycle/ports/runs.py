"""Port to runs as their supervisors and doors write them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.contract.clock import Clock
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.notices import ExportEvent, Notice
from crawler_lifecycle.contract.records import Explanation, ExportRecord, RunRecord
from crawler_lifecycle.contract.requests import AcceptedRequest, StopRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, StopPhase
from crawler_lifecycle.contract.steps.exports import ExportsOwed
from crawler_lifecycle.contract.steps.run import RunRef


@dataclass(frozen=True, slots=True)
class NewRun:
    """A request with the crawler's defaults filled in, and the workflow execution that makes the run."""

    request: AcceptedRequest
    entry: Crawler
    tasks: int
    workflow_id: str
    first_execution_run_id: str


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a workflow; the executions of one workflow id follow each other."""

    workflow_id: str
    run_id: str
    began_at: datetime | None = None


class Runs(Protocol):
    """Runs as they are written: their states, stops, supervisors, exports and notices.

    A method that takes a `RunRef` raises Fenced if the run has another supervisor by now.
    """

    # the run's own states

    def create(self, new: NewRun) -> RunRecord:
        """Return the run of this workflow execution; make it (epoch 1, tasks QUEUED) unless it is there already.

        BadInput if another run of this workflow id is not over: a workflow id stands for one run at a time."""

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """Return the run that this workflow execution has made, if there is one."""

    def get(self, run_id: int) -> RunRecord:
        """Return the run. NotFound if there is none, Conflict if it is another installation's."""

    def current(self, run: RunRef) -> RunRecord:
        """Return the run to its supervisor. NotFound if there is no such run."""

    def set_property(self, run: RunRef, name: str, value: str) -> None: ...

    def note(self, run: RunRef, key: str, event: str, message: str) -> None:
        """Add a line to the run's timeline, unless a line with this key is there."""

    def has_note(self, run: RunRef, key: str) -> bool:
        """Return whether the run's timeline has a line with this key."""

    def mark_started(self, run: RunRef, started_at: datetime | None = None) -> RunRecord:
        """Turn INITIALIZING to PROCESSING; any other status stays.

        `started_at`: when the main job started. Without it, or where it is before the run or after now, that is now."""

    def mark_waiting(self, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Write why the run waits (None: it does not wait). Return since when; the time stays while the cause does."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> None:
        """Write that a look is over: acknowledge its nudge and, if the cluster was known, note the time."""

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """Write the run's end. A run that is over keeps its first end. Conflict while a task is alive."""

    # stops

    def request_stop(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """Write a door's stop in one transaction: intent STOP or FORCE (never back), status STOPPING, and a line with
        the actor, time, reason and door. The same stop (the same in all of these) is logged once. Over if the run is
        over, Conflict if it is another installation's."""

    def log_stop(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """Write a stop that the supervisor received, as `request_stop` does. `ends_as` is kept as the run's reason. A
        run that is over stays as it is."""

    def note_stop_phase(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """Write that the stop has reached this phase; it is noted once."""

    def stop_asked_at(self, run_id: int) -> datetime | None:
        """Return when the run's present end was first asked for; None if nobody has asked."""

    def jobs_asked_at(self, run_id: int) -> datetime | None:
        """Return when, for the run's present end, its jobs were first asked to end; None if they were not."""

    # supervision: Conflict if the run belongs to another workflow id or installation; Fenced if a later execution of
    # the workflow has taken over, since an execution that was terminated must not replace its successor

    def limit_clock(self, run_id: int) -> Clock:
        """Return for how long the run's limits of time have stood still since its present end was open."""

    def hold_limits(self, run: RunRef, number: int, *, held: bool) -> Clock:
        """Let the run's limits of time stand still, or go on. The change with this number is noted once."""

    def take_over(self, run_id: int, execution: Execution) -> RunRecord:
        """Make this execution the supervisor. The epoch goes up by one, so writes of an earlier supervisor are
        refused. A run that is over stays as it is."""

    def reopen(self, run_id: int, execution: Execution) -> RunRecord:
        """Let a FAILED run go on: intent RUN, PROCESSING if its main job succeeded and else INITIALIZING, and every
        task that did not succeed is QUEUED with its next attempt. Twice by one execution is once. Conflict if the run
        is not FAILED."""

    # exports and notices; pipelines read the table of exports, too

    def open_export(self, run: RunRef, event: ExportEvent) -> ExportRecord:
        """Return the row of this event id; make it (pending) unless it is there already."""

    def export_event(self, event_id: str) -> ExportEvent | None:
        """Return the event as it was kept last."""

    def settle_export(
        self,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """Write the export's state. `event` is kept as announced, or to be announced; None keeps the earlier one."""

    def owed_exports(self, run_id: int) -> ExportsOwed:
        """Return which exports of all the run's ends are not done."""

    def explanation(self, run: RunRecord) -> Explanation | None:
        """Return why this run ended as it did; None while it is under way, and if there is nothing to explain."""

    def keep_notice(self, run: RunRef, notice: Notice) -> Notice:
        """Keep the notice with its run and return the one to send: every try under one id sends the notice that was
        kept first. Of notices of progress only the last is kept."""
