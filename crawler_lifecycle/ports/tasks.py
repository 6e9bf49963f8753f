"""Port for the task rows of a run. Looks read and write the rows, and people add tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.contract.steps.looks import TaskChange, TaskEvidence
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.looks import JobKey, TaskRow


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
        """Return the jobs of tasks that ended on their own and have no stored evidence."""

    def cancel_queued(self, run: RunRef, reason: str) -> int:
        """Change QUEUED tasks to STOPPED, for the reason. Return how many tasks were changed."""

    def add(self, addition: Addition) -> range:
        """Add QUEUED tasks and return their numbers; after an earlier addition with the same key, return its tasks.

        The run cannot end during the call. Conflict if no task is alive any more, or if the run has to stop or is over.
        """
