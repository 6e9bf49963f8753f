"""Inputs and results for the steps at a run's end: close the run, send notices, announce, archive, remove the jobs."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.run import RunInput


class CloseRun(RunInput):
    reason: str | None = Field(default=None, description="reason by the run itself; none: the tasks decide")


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
