"""Inputs and results for steps that several stages share, and for the steps at a run's end; the run's plan and clock.

At the end the run is closed, notices are sent, the end is announced, the files are archived, and the jobs are removed.
"""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.model.states import Report, RunStatus, TaskStatus, Trigger


class Clock(Message):
    """The limit clock's state. The clock is stopped (held) while all remaining jobs are suspended."""

    held_seconds: float = Field(default=0, description="total duration of earlier standstills")
    held_since: datetime | None = Field(default=None, description="begin of the standstill; none: the clock counts")
    changes: int = Field(default=0, description="how often the clock was stopped or resumed, until now")

    @property
    def is_held(self) -> bool:
        """Whether the clock is stopped now."""
        return self.held_since is not None


class RunRef(Message):
    """A run and its supervisor's epoch. A write with an older epoch than the run's row is refused."""

    run_id: int
    run_uid: str
    epoch: int


class RunInput(Message):
    """Input for an activity about a run. Inputs with further fields extend the class."""

    run: RunRef


class RunPlan(Message):
    """The supervisor's plan for a run: the request with the crawler's and the installation's defaults filled in."""

    run: RunRef
    crawler: str
    trigger: Trigger
    tasks: int
    end: int = Field(default=1, description="number of the run's next end")
    begun_at: datetime = Field(description="time from which the limits count: creation or last reopening")
    start_limit_seconds: int | None = None
    max_duration_seconds: int | None = None
    grace_seconds: int = 30
    report: Report = Report.ALL
    clock: Clock = Clock()
    flow: FlowLink | None = Field(default=None, description="place in a flow that waits for the run's archive")
    records_stay: bool = Field(
        default=False, description="whether ended jobs stay in the cluster as records, so that no job is removed"
    )
    search_attributes: bool = Field(
        default=False,
        description="whether the server has our search attributes; to set an unknown attribute fails the workflow task",
    )


class Counted(Message):
    """Result for a step: the count for its effects, such as written rows or sent notices."""

    count: int


class CloseRun(RunInput):
    """Record a run's end."""

    reason: str | None = Field(
        default=None, description="reason why the run ends without a stop request, such as a limit; none: tasks decide"
    )


class RunOutcome(Message):
    """The run's outcome, as returned by its workflow."""

    run_id: int
    run_uid: str
    status: RunStatus
    reason: str
    tasks: dict[TaskStatus, int]


class Notify(RunInput):
    """Send a notice about a run."""

    end: int = Field(default=1, description="number of the end; a reopened run has several ends")
    number: int = Field(default=1, description="number among the run's notices of the same kind")


class RemoveJobs(RunInput):
    """Remove tasks' ended jobs."""

    tasks: str = Field(default="", description="task numbers as ranges; empty: all tasks that are over")


class Removal(Message):
    """Result for removing a page with jobs."""

    left: int = Field(default=0, description="number of jobs that have to stay for now")
    rest: str = Field(default="", description="tasks of the further pages, as ranges; empty: no further page")


class ExportedEnd(RunInput):
    """Export the run's end with the number `end`."""

    end: int = 1
    flow: FlowLink | None = Field(default=None, description="place in a flow that waits for the archive")


class ExportsOwed(Message):
    """A run's ends with a pending export, by number, the last end first."""

    events: list[int] = Field(default=[], description="ends whose event is not announced")
    archives: list[int] = Field(default=[], description="ends whose files are not archived")


class ExportAgain(ExportedEnd):
    """Export the end even if the end is exported already, and also make the run's pending exports."""

    owed: ExportsOwed = ExportsOwed()


class ExportSignal(Message):
    """Result for announcing an end."""

    event_id: str
    supporting_files: str = Field(description="future place of the archive")


class ExportedFiles(Message):
    """Result for archiving the files after an end."""

    event_id: str
    location: str | None = Field(default=None, description="place of the archive; none: the run left no files")
    files: int = 0
    bytes: int = 0
