"""Inputs and results of an export's steps: the event for a run's end, and the archive of its files."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.steps.run import RunInput


class RunEnd(RunInput):
    """Input for an export: the run, and the number of its end."""

    end: int = 1


class ExportsOwed(Message):
    """A run's ends without their event or archive, the last end first."""

    events: list[int] = []
    archives: list[int] = []


class ExportAgain(RunEnd):
    """Export this end again, whatever the state of its export, and also make the missing exports of the run."""

    owed: ExportsOwed = ExportsOwed()


class ExportSignal(Message):
    event_id: str
    supporting_files: str = Field(description="future place of the archive")


class ExportedFiles(Message):
    event_id: str
    location: str | None = Field(default=None, description="none if the run left no files")
    files: int = 0
    bytes: int = 0
