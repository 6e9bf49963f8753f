"""Inputs and results for a stop's steps: record the stop, ask jobs to end or kill jobs, note the phases."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import RunInput
from crawler_lifecycle.model.states import StopPhase


class LogCancellation(RunInput):
    """Record a stop after the workflow has accepted the stop."""

    stop: StopRequest
    asked_at: datetime = Field(description="time of the stop request")
    ends_as: str | None = Field(default=None, description="the limit, if the workflow itself made the stop")


class NotePhase(RunInput):
    """Stop phase for the run's timeline. The timeline shows a phase once."""

    phase: StopPhase
    message: str


class StopAnswer(Message):
    """Answer to a stop if the caller waits for the acceptance. The stop's proof comes later."""

    run_id: int | None = Field(default=None, description="none: the run is not recorded yet, and gets no job")
    forced: bool = Field(description="whether this or an earlier stop is a force")
    again: bool = Field(description="whether an earlier stop was under way already")


class StopTasks(RunInput):
    """Ask tasks' jobs to end, or kill the jobs. The activity decides between the two."""

    tasks: str = Field(default="", description="task numbers as ranges; empty: all tasks with a job in the cluster")


class StopReport(Message):
    """Result for stopping a page with jobs."""

    asked: int = Field(description="number of jobs that were asked to end or killed")
    rest: str = Field(default="", description="tasks of the further pages, as ranges; empty: no further page")
