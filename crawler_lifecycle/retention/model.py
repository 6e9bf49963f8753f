"""What retention reads and reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from crawler_lifecycle.contract.base import Message


class Kind(StrEnum):
    """What retention removes."""

    RUNS = "runs"  # with their tasks, attempts, lines, notices, exports, labels and tags
    FLOWS = "flows"
    ITEMS = "items"  # old settled items of managers that are open
    LOGS = "logs"  # kept logs of runs whose archives have them
    FOLDERS = "folders"  # files and job records of removed runs
    ARCHIVES = "archives"  # in the folder for exports
    FILES_OF_LINES = "files_of_lines"  # earlier days of `events.jsonl` and `notices.jsonl`


class Hold(StrEnum):
    """Why an old run stays."""

    FLOW = "flow"  # its flow is still stored
    EXPORT = "export"  # an event or an archive of its end is pending or has failed
    FINDING = "finding"  # an audit's finding about the run is open
    JOB = "job"  # the cluster still has a job of the run
    FOREIGN = "foreign"  # another installation began the run


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run that is over for long, with the facts that may keep it."""

    run_id: int
    run_uid: str
    tasks: int
    is_own: bool
    is_in_flow: bool
    owes_export: bool
    has_finding: bool


@dataclass(frozen=True, slots=True)
class Ages:
    """How long things are kept after their end; None: for as long as the installation lives."""

    runs: timedelta | None
    flows: timedelta | None
    logs: timedelta | None
    archives: timedelta | None
    lines: timedelta | None


@dataclass(frozen=True, slots=True)
class Folders:
    """The local folders of an installation."""

    files: Path  # a folder for every run
    jobs: Path | None  # job records of the local cluster, a folder for every run
    exports: Path


class PassReport(Message):
    """The result of a pass, or what a pass would remove."""

    began_at: datetime
    finished_at: datetime | None = Field(default=None, description="None: the pass was interrupted")
    removed: dict[Kind, int] = Field(default={}, description="numbers by kind; a kind without any is left out")
    bytes: dict[Kind, int] = Field(default={}, description="sizes of files, and estimated sizes of rows, by kind")
    held: dict[Hold, int] = Field(default={}, description="old runs that stay, by the cause")
    problem: str | None = Field(default=None, description="why something old could not be removed")


@dataclass(frozen=True, slots=True)
class LastPass:
    """The record of passes."""

    holder: str | None  # the worker that makes a pass at present
    finished_at: datetime | None  # of the last pass without a problem
    report: PassReport | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes in the database by table, and the number of runs. SQLite has one size, for the whole file."""

    tables: Mapping[str, int]
    runs: int
    oldest_run_at: datetime | None
