"""Inputs and results that the steps of several stages share, the limit clock of a run, and the steps at a run's end.

At the end a run is closed, its notices are sent, its end is announced and archived, and its jobs are removed.
"""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.states import RunStatus, TaskStatus, Trigger


class Clock(Message):
    """The limit clock's state. The clock stands still while all remaining jobs are suspended."""

    held_seconds: float = Field(default=0, description="total of earlier standstills")
    held_since: datetime | None = Field(default=None, description="begin of the standstill; none: the clock counts")
    changes: int = Field(default=0, description="number of standstills and continuations")

    @property
    def is_held(self) -> bool:
        return self.held_since is not None


class RunRef(Message):
    """Run and its supervisor's epoch. Every write compares the epoch."""

    run_id: int
    run_uid: str
    epoch: int


class RunInput(Message):
    """Input for an activity without further parameters."""

    run: RunRef


class RunPlan(Message):
    """Plan for a run: its request with the crawler's defaults filled in."""

    run: RunRef
    crawler: str
    trigger: Trigger
    tasks: int
    end: int = Field(default=1, description="number of the run's next end")
    begun_at: datetime
    start_limit_seconds: int | None = None
    max_duration_seconds: int | None = None
    grace_seconds: int = 30
    clock: Clock = Clock()
    search_attributes: bool = Field(
        default=False,
        description="the server has our search attributes; to set an unknown attribute fails the workflow task",
    )


class Counted(Message):
    count: int


class CloseRun(RunInput):
    reason: str | None = Field(
        default=None, description="reason to end without a request, such as a limit; none: the tasks decide"
    )


class RunOutcome(Message):
    """The run's outcome, as returned by its workflow."""

    run_id: int
    run_uid: str
    status: RunStatus
    reason: str
    tasks: dict[TaskStatus, int]


class Notify(RunInput):
    end: int = Field(default=1, description="number of the end; a reopened run has several")
    number: int = Field(default=1, description="number among the notices of a kind")


class RemoveJobs(RunInput):
    tasks: str = Field(default="", description="task numbers as ranges; empty: all tasks that are over")


class Removal(Message):
    """Result for a removal. `left` counts jobs with a reason to stay for now; `rest` has the further pages' tasks."""

    left: int = 0
    rest: str = ""


class RunEnd(RunInput):
    """Input for an export: the run, and its end's number."""

    end: int = 1


class ExportsOwed(Message):
    """A run's ends without their event or archive, the last end first."""

    events: list[int] = []
    archives: list[int] = []


class ExportAgain(RunEnd):
    """Export the end again, whatever its export's state, and also make the run's missing exports."""

    owed: ExportsOwed = ExportsOwed()


class ExportSignal(Message):
    event_id: str
    supporting_files: str = Field(description="future place of the archive")


class ExportedFiles(Message):
    event_id: str
    location: str | None = Field(default=None, description="none if the run left no files")
    files: int = 0
    bytes: int = 0
