"""Inputs and results for the steps of a stop: record the stop, ask jobs to end or kill jobs, note the phases."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import StopPhase
from crawler_lifecycle.contract.steps.run import RunInput


class LogCancellation(RunInput):
    """Record a stop that the workflow has accepted."""

    stop: StopRequest
    asked_at: datetime = Field(description="time of the stop request")
    ends_as: str | None = Field(default=None, description="the limit, if the workflow itself made the stop")


class NotePhase(RunInput):
    """Stop phase for the run's timeline. The timeline shows a phase once."""

    phase: StopPhase
    message: str


class StopAnswer(Message):
    """Answer to a stop whose caller waits for the acceptance. The proof that no job runs comes later."""

    run_id: int | None = Field(default=None, description="none: the run is not on record yet, and gets no job")
    forced: bool = Field(description="whether this or an earlier stop is a force")
    again: bool = Field(description="whether an earlier stop was under way already")


class StopTasks(RunInput):
    """Ask the jobs of tasks to end, or kill the jobs. The activity decides between the two."""

    tasks: str = Field(default="", description="task numbers as ranges; empty: all tasks with a job in the cluster")


class StopReport(Message):
    """Result for a stop of a page of jobs."""

    asked: int = Field(description="number of jobs that were asked to end or killed")
    rest: str = Field(default="", description="tasks of the further pages, as ranges; empty: no further page")
