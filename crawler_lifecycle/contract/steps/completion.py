"""Steps at a run's end: close the run, send notices, and remove the jobs."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.run import RunRef


class CloseRun(Message):
    run: RunRef
    reason: str | None = Field(default=None, description="set where the run itself, not its tasks, gives the reason")


class RunOutcome(Message):
    """The run's outcome; the workflow returns the outcome."""

    run_id: int
    run_uid: str
    status: RunStatus
    reason: str
    tasks: dict[TaskStatus, int]


class Notify(Message):
    run: RunRef
    end: int = Field(default=1, description="which end of the run is meant: one that was reopened has several")
    number: int = Field(default=1, description="tells repeated notices of one kind apart")


class RemoveJobs(Message):
    run: RunRef
    tasks: str = Field(default="", description="as ranges; none: all that are over")


class Removal(Message):
    """Result of a removal. `left` counts jobs that have to stay for now; `rest` has the tasks of further pages."""

    left: int = 0
    rest: str = ""
