"""Steps of a stop."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import StopPhase
from crawler_lifecycle.contract.steps.run import RunRef


class LogCancellation(Message):
    run: RunRef
    stop: StopRequest
    asked_at: datetime
    ends_as: str | None = Field(default=None, description="the reason of the end, where the run itself gives up")


class NotePhase(Message):
    """Stop phase for the run's timeline. The timeline shows a phase once."""

    run: RunRef
    phase: StopPhase
    message: str


class StopAnswer(Message):
    """Answer to a waiting stop: the stop is accepted, and not yet proved."""

    run_id: int | None = Field(default=None, description="none: the run has no history yet, and never gets a job")
    forced: bool
    again: bool = Field(description="the run was being stopped already")


class StopTasks(Message):
    run: RunRef
    tasks: str = Field(default="", description="as ranges; none: all that are in the cluster")


class StopReport(Message):
    """Result for a page. `asked` counts jobs told to end; `rest` has the tasks of further pages."""

    asked: int
    rest: str = ""
