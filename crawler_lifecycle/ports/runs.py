"""What is written to a run while it goes on?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.contract.clock import Clock
from crawler_lifecycle.contract.deployment import Crawler
from crawler_lifecycle.contract.records import (
    RunRecord,
)
from crawler_lifecycle.contract.requests import AcceptedRequest, StopRequest
from crawler_lifecycle.contract.states import Intent, RunStatus, StopPhase, TaskStatus
from crawler_lifecycle.contract.steps import RunRef, TaskChange, TaskEvidence
from crawler_lifecycle.domain.looks import TaskRow


@dataclass(frozen=True, slots=True)
class NewRun:
    """A request with the crawler's defaults filled in, and the workflow execution that asked."""

    request: AcceptedRequest
    entry: Crawler
    tasks: int
    workflow_id: str
    first_execution_run_id: str


class Histories(Protocol):
    """Runs, as their supervisor writes them."""

    def create(self, new: NewRun) -> RunRecord:
        """The run of this workflow execution, made unless it is there already (epoch 1, task rows QUEUED).

        BadInput if another run of this workflow id is not over: a workflow id stands for one run at a time."""

    def find(self, workflow_id: str, first_execution_run_id: str) -> RunRecord | None:
        """The run that this workflow execution has made already."""

    def current(self, run: RunRef) -> RunRecord:
        """The run, for its supervisor: Fenced if that is another by now, NotFound if there is no such run."""

    def set_property(self, run: RunRef, name: str, value: str) -> None: ...

    def note(self, run: RunRef, key: str, event: str, message: str) -> None:
        """A line in the run's timeline; one with the same key is logged once."""

    def noted(self, run: RunRef, key: str) -> bool:
        """Whether the run's timeline has a line with this key."""

    def mark_started(self, run: RunRef) -> RunRecord:
        """INITIALIZING to PROCESSING; any other status stays."""

    def mark_waiting(self, run: RunRef, cause: str | None, message: str | None) -> datetime | None:
        """Why the run waits (None: it does not); answers since when, which stays while the cause does."""

    def mark_look(
        self, run: RunRef, nudge: int, known: bool, problem: str | None, next_look_at: datetime | None
    ) -> None:
        """A look is over: acknowledge its nudge and, if the cluster was known, note the time."""

    def close(self, run: RunRef, status: RunStatus, reason: str) -> RunRecord:
        """The end. A run that is over keeps its first end. Refused while a task is alive."""


class Stops(Protocol):
    """What people want of a run that is under way, and how far that has come."""

    def ask(self, run_id: int, stop: StopRequest, asked_at: datetime) -> RunRecord:
        """From a door, in one transaction: intent STOP or FORCE (never back), status STOPPING, and who asked, when,
        why, by which door. The same stop (all of that, and the same `asked_at`) is logged once. Over if the run is
        over, Conflict if it is another installation's."""

    def log(self, run: RunRef, stop: StopRequest, asked_at: datetime, ends_as: str | None = None) -> Intent:
        """The same from the supervisor; `ends_as` is kept as the run's reason. A run that is over stays as it is."""

    def note(self, run: RunRef, phase: StopPhase, message: str) -> None:
        """A phase of the stop is reached; noted once."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a workflow; those of one workflow id follow each other."""

    workflow_id: str
    run_id: str
    began_at: datetime | None = None


class Supervision(Protocol):
    """Which workflow supervises a run.

    Conflict if the run belongs to another workflow id or installation; Fenced if a later execution of it has taken
    over already: what an execution still does after it was terminated must not put the next one out."""

    def get(self, run_id: int) -> RunRecord:
        """NotFound if there is none."""

    def stop_asked_at(self, run_id: int) -> datetime | None:
        """When the end that the run is going to was first asked for; None: nobody has."""

    def jobs_asked_at(self, run_id: int) -> datetime | None:
        """When, on the way to that end, its jobs were first asked to end; None: they were not."""

    def clock(self, run_id: int) -> Clock:
        """How long, on the way to that end, its limits have stood still."""

    def hold(self, run: RunRef, number: int, *, held: bool) -> Clock:
        """From now on they stand still, or go on. The change of a number is noted once."""

    def take_over(self, run_id: int, execution: Execution) -> RunRecord:
        """The epoch goes up by one: what an earlier supervisor still writes is refused. A run that is over is left as
        it is."""

    def reopen(self, run_id: int, execution: Execution) -> RunRecord:
        """A FAILED run goes on: intent RUN, PROCESSING if its main job succeeded and else INITIALIZING, and every task
        that did not succeed is QUEUED with its next attempt. Twice by one execution is once. Conflict if the run is
        not FAILED."""


class Tasks(Protocol):
    """Tasks, as looks read and write them. No number of statements grows with the tasks but by pages of 1,000."""

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Task numbers by status, all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """What a verdict needs to know, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange]) -> int:
        """Write each change whose row is still (attempt and version) what was read; how many were.

        The time of an end is the cluster's if it tells one, else now."""

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence]) -> int:
        """Keep the evidence with its task, if that is still at that attempt; how many rows."""

    def unexplained(self, run_id: int) -> list[tuple[int, int]]:
        """(task, attempt) of those whose job ended by itself, and of which nobody knows where it ran."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """QUEUED to STOPPED; how many."""
