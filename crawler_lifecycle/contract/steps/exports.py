"""Steps of an export."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.steps.run import RunRef


class RunEnd(Message):
    """The input of the export: the run, and which of its ends, where it was reopened."""

    run: RunRef
    end: int = 1


class ExportsOwed(Message):
    """Of a run that is over, the ends whose event or whose archive is not there yet, the last one first."""

    events: list[int] = []
    archives: list[int] = []


class ExportAgain(RunEnd):
    """The end that is exported again whatever became of it, and what is still owed of others."""

    owed: ExportsOwed = ExportsOwed()


class ExportSignal(Message):
    event_id: str
    supporting_files: str = Field(description="where the zip will be")


class ExportedFiles(Message):
    event_id: str
    location: str | None = Field(default=None, description="none if the run left no files")
    files: int = 0
    bytes: int = 0
