"""Inputs and results for a stop's steps: record the stop, ask or force the jobs to end, note the phases."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import StopPhase
from crawler_lifecycle.contract.steps.run import RunInput


class LogCancellation(RunInput):
    stop: StopRequest
    asked_at: datetime
    ends_as: str | None = Field(default=None, description="the limit, if the workflow itself made the stop")


class NotePhase(RunInput):
    """Stop phase for the run's timeline. The timeline shows a phase once."""

    phase: StopPhase
    message: str


class StopAnswer(Message):
    """Answer to a waiting stop: the stop is accepted, and not yet proved."""

    run_id: int | None = Field(default=None, description="none: the run has no record yet, and gets no job")
    forced: bool
    again: bool = Field(description="the run was being stopped already")


class StopTasks(RunInput):
    tasks: str = Field(default="", description="task numbers as ranges; empty: all in the cluster")


class StopReport(Message):
    """Result for a page. `asked` counts jobs told to end; `rest` has the further pages' tasks."""

    asked: int
    rest: str = ""
