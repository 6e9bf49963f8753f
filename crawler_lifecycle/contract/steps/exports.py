"""Steps of an export."""

from pydantic import Field

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.steps.run import RunRef


class RunEnd(Message):
    """Input for an export: the run, and the number of its end."""

    run: RunRef
    end: int = 1


class ExportsOwed(Message):
    """A run's ends without their event or archive, the last end first."""

    events: list[int] = []
    archives: list[int] = []


class ExportAgain(RunEnd):
    """End to export again, whatever the state of its export, and the missing exports of the run."""

    owed: ExportsOwed = ExportsOwed()


class ExportSignal(Message):
    event_id: str
    supporting_files: str = Field(description="where the zip will be")


class ExportedFiles(Message):
    event_id: str
    location: str | None = Field(default=None, description="none if the run left no files")
    files: int = 0
    bytes: int = 0
