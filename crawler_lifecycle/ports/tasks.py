"""Port for a run's task rows: looks read and write the rows, and people add tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.contract.steps.looks import TaskChange, TaskEvidence
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.looks import JobKey, TaskRow


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
