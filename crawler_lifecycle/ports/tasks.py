"""Port to the tasks of runs as looks read and write them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.contract.steps.evidence import TaskEvidence
from crawler_lifecycle.contract.steps.looks import TaskChange
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.looks import JobKey, TaskRow


@dataclass(frozen=True, slots=True)
class Addition:
    """Tasks to add to a run that is under way; `key` tells one request from another."""

    run_id: int
    count: int
    key: str
    most_tasks: int
    actor: str | None
    door: str


class Tasks(Protocol):
    """Tasks of a run. A statement reads or writes up to 1,000 of them."""

    def by_status(self, run_id: int) -> dict[TaskStatus, list[int]]:
        """Return the task numbers by status, for all statuses that occur."""

    def rows(self, run_id: int, tasks: Sequence[int]) -> list[TaskRow]:
        """Return the rows that a verdict needs, in the order of the task numbers."""

    def sync(self, run: RunRef, changes: Sequence[TaskChange]) -> int:
        """Write each change whose row has still the attempt and version that were read. Return how many were written.

        The time of an end is the cluster's if the change has one, else now."""

    def reconcile(self, run: RunRef, evidence: Sequence[TaskEvidence]) -> int:
        """Keep the evidence with each task that is still at that attempt. Return how many rows were written."""

    def unexplained(self, run_id: int) -> list[JobKey]:
        """Return (task, attempt) of tasks whose job ended by itself and of which no evidence was kept."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """Turn QUEUED to STOPPED. Return how many tasks were turned."""

    def add(self, addition: Addition) -> range:
        """Return the numbers of the new tasks, QUEUED; those of an earlier addition with this key, if there is one.

        The run cannot end meanwhile. Conflict if none of its tasks is alive any more, or it is to stop, or over."""
