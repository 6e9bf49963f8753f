"""Models for the facts and reports in retention."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from crawler_lifecycle.base.base import Message


class Kind(StrEnum):
    """A kind for the counts in a report."""

    RUNS = "runs"  # with their tasks, attempts, lines, notices, exports, labels and tags
    FLOWS = "flows"
    ITEMS = "items"  # old settled items, in open managers
    LOGS = "logs"  # kept logs, for runs with an archive
    FOLDERS = "folders"  # files and job records, for removed runs
    ARCHIVES = "archives"  # in the folder for exports
    FILES_OF_LINES = "files_of_lines"  # for earlier days: `events.jsonl` and `notices.jsonl`


class KeepReason(StrEnum):
    """Why an old run stays."""

    FLOW = "flow"  # its flow is still stored
    EXPORT = "export"  # an event or archive is pending or has failed
    FINDING = "finding"  # an audit's finding about the run is open
    JOB = "job"  # the cluster still has a job for the run
    FOREIGN = "foreign"  # another installation began the run


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run with an old end, and the facts for its hold."""

    run_id: int
    run_uid: str
    tasks: int
    is_own: bool
    is_in_flow: bool
    owes_export: bool
    has_finding: bool


@dataclass(frozen=True, slots=True)
class Archived:
    """A run with a delivered archive."""

    run_uid: str
    created_at: datetime
    event_id: str


@dataclass(frozen=True, slots=True)
class Ages:
    """Times from an end until the removal; None: no removal."""

    runs: timedelta | None
    flows: timedelta | None
    logs: timedelta | None
    archives: timedelta | None
    lines: timedelta | None


@dataclass(frozen=True, slots=True)
class Folders:
    """The installation's local folders."""

    files: Path  # a folder for every run
    jobs: Path | None  # the local cluster's job records, with a folder for every run
    exports: Path


class PassReport(Message):
    """A pass's result, or its result in advance."""

    began_at: datetime
    finished_at: datetime | None = Field(default=None, description="None: the pass was interrupted")
    removed: dict[Kind, int] = Field(default={}, description="numbers by kind; a kind without any is left out")
    bytes: dict[Kind, int] = Field(default={}, description="sizes of files, and estimated sizes of rows, by kind")
    held: dict[KeepReason, int] = Field(default={}, description="old runs that stay, by the cause")
    problem: str | None = Field(default=None, description="why something old could not be removed")


@dataclass(frozen=True, slots=True)
class LastPass:
    """The stored state."""

    holder: str | None  # the worker with the claim
    finished_at: datetime | None  # the last end without a problem
    report: PassReport | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes in the database by table, and the count for runs. SQLite has a single size, for the whole file."""

    tables: Mapping[str, int]
    runs: int
    oldest_run_at: datetime | None
