"""The folders and files of the local cluster: `Layout` names their paths, `JobFolder` reads and writes a job's files.

root/jobs/<run_uid>/<job name>/   the files about a job
root/waiting/<time>-<job name>    the place of a waiting job: an empty file; the oldest job starts first
root/running/<time>-<job name>    the place of a started job; the number of these places is limited
root/new/                         job folders in creation
root/changed/<run_uid>            touched when a job in the run changes
root/placing.lock                 held while jobs are claimed, placed or withdrawn
root.made                         marker beside the root; without the marker an absent root is a new installation
files/<run_uid>/                  the run's files, including logs

In a job's folder:

spec.json     the request; exists as long as the folder
started.json  the runner and process; written just before the job's process is created, and again just after
stop.json     a request to end the job
told          an empty file: SIGTERM was sent
exit.json     the end
lock          locked by the job's runner while the runner lives
crawl-result.json  the crawl's own account, written by the job's program

Only crawl-result.json may be incomplete; every record is written in a single step. Times are seconds since 1970. The
module imports nothing heavy, since a runner has to start fast.
"""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar
from uuid import UUID

import msgspec
import psutil

from crawler_lifecycle.clusters.adapters.regular_files import open_regular
from crawler_lifecycle.clusters.local.processes import FirstProcess, SurveyedProcess, of_job, of_name
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.naming import checked_uid

JOB_NAME = re.compile(r"crawl-([0-9a-f]{32})-(0|[1-9][0-9]*)-([1-9][0-9]*)")


class Layout:
    """Paths below the local cluster's root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs = root / "jobs"
        self.waiting = root / "waiting"
        self.running = root / "running"
        self.new = root / "new"
        self.changed = root / "changed"
        self.placing_lock = root / "placing.lock"
        self.made = root.with_name(f"{root.name}.made")
        self.missing = f"{root} is missing: is it mounted?"

    @property
    def is_away(self) -> bool:
        """Return whether the root is absent although it was made: moved, or not mounted. Its jobs may run on."""
        return self.made.exists() and not self.jobs.is_dir()

    def make(self) -> None:
        """Create the root, unless it is away: a new root would take the place of the old root."""
        if self.is_away:
            raise FileNotFoundError(f"{self.missing}; if its jobs are gone for good, remove {self.made}")
        for folder in (self.jobs, self.waiting, self.running, self.new, self.changed):
            folder.mkdir(parents=True, exist_ok=True)
        self.made.touch()

    def run(self, run_uid: str) -> Path:
        """Return the folder with the run's jobs."""
        return self.jobs / checked_uid(run_uid)

    def job(self, name: str) -> Path:
        """Return a job's folder; the job's name contains the uid of its run."""
        match = JOB_NAME.fullmatch(name)
        if not match:
            raise BadInput("job_name", f"{name!r} is not the name of a job")
        return self.jobs / str(UUID(match[1])) / name

    def announce_change(self, run_uid: str) -> None:
        """Touch the run's file for the watcher. A full disk loses the change: looks are correct without changes."""
        with suppress(OSError):
            (self.changed / checked_uid(run_uid)).write_bytes(b".")


def job_name_of(place: str) -> str:
    """Return the job's name from its place, <time>-<job name>."""
    return place.partition("-")[2]


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


T = TypeVar("T")


class UnreadableRecord(Exception):
    """A record exists but cannot be read."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The request for the job."""

    uid: str
    key: str
    installation: str
    run_uid: str
    name: str
    request_hash: str
    claimed_at: float
    place: str  # name of the job's place in the queue: `<time>-<job name>`
    command: list[str]
    environment: dict[str, str]
    files: str
    log: str
    deadline_seconds: int | None
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class StartRecord:
    """The runner and the job's first process; a bare pid may belong to another program by now."""

    uid: str
    installation: str
    at: float
    runner_pid: int
    runner_created: float
    pid: int | None = None
    created: float | None = None

    @property
    def first(self) -> FirstProcess | None:
        return FirstProcess(self.pid, self.created) if self.pid and self.created else None


@dataclass(frozen=True, slots=True)
class Stop:
    """The request to end the job, by SIGTERM or, with `kill`, by SIGKILL."""

    at: float
    kill: bool = False


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The end of the job. Without a reason the job succeeded; without a code no program was started."""

    uid: str
    installation: str
    at: float
    code: int | None
    reason: str | None
    message: str | None
    started_at: float | None
    stop_asked: bool
    left_over: int = 0  # processes that survived the job's end


# made at the import: two threads that are the first to use a type at the same moment crash the process
SPEC, START = msgspec.json.Decoder(Spec), msgspec.json.Decoder(StartRecord)
STOP, END = msgspec.json.Decoder(Stop), msgspec.json.Decoder(EndRecord)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A job's folder. A record's method returns None without the file. UnreadableRecord: the file cannot be read."""

    path: Path

    @property
    def result_path(self) -> Path:
        """Return the file that the job's program may write its result to."""
        return self.path / "crawl-result.json"

    def spec(self) -> Spec | None:
        return _read(self.path / "spec.json", SPEC)

    def started(self) -> StartRecord | None:
        return _read(self.path / "started.json", START)

    def stop(self) -> Stop | None:
        return _read(self.path / "stop.json", STOP)

    def ended(self) -> EndRecord | None:
        return _read(self.path / "exit.json", END)

    def _readable_records(self) -> Iterator[Spec | StartRecord | EndRecord]:
        for read in (self.spec, self.started, self.ended):
            with suppress(UnreadableRecord):
                if record := read():
                    yield record

    @property
    def installation(self) -> str | None:
        """Return the installation by the first readable record; None if no record names an installation."""
        return next((record.installation for record in self._readable_records()), None)

    def processes(self, survey: Iterable[SurveyedProcess]) -> list[psutil.Process]:
        """Return the job's processes by its uid and first process; without a readable record, by the job's name."""
        records = list(self._readable_records())
        if not records:
            return of_name(survey, self.path.name)
        first = next((record.first for record in records if isinstance(record, StartRecord)), None)
        return of_job(survey, records[0].uid, first)

    def program_is_among(self, living: Iterable[psutil.Process]) -> bool:
        """Return whether the job's program is among the processes. Without a record, any process may be the program."""
        try:
            started = self.started()
        except UnreadableRecord:
            started = None
        first = started.first if started else None
        return any(first is None or process.pid == first.pid for process in living)

    def write(self, record: Spec | StartRecord | Stop | EndRecord) -> None:
        names = {Spec: "spec.json", StartRecord: "started.json", Stop: "stop.json", EndRecord: "exit.json"}
        _write(self.path / names[type(record)], record)

    @property
    def has_started(self) -> bool:
        return (self.path / "started.json").exists()

    @property
    def stop_asked(self) -> bool:
        return (self.path / "stop.json").exists()

    @property
    def was_signalled(self) -> bool:
        """Return whether the job was sent a signal; a request to end that met no process sends none."""
        try:
            stop = self.stop()
        except UnreadableRecord:
            return True  # the unreadable record may be a request to kill
        return (self.path / "told").exists() or (stop is not None and stop.kill)

    @property
    def has_ended(self) -> bool:
        return (self.path / "exit.json").exists()

    @property
    def is_clean(self) -> bool:
        """Return whether the job is over and its record lists no surviving process."""
        try:
            ended = self.ended()
        except UnreadableRecord:
            return False
        return ended is not None and not ended.left_over

    def claim_signal(self) -> bool:
        """Return True to the first caller, who sends SIGTERM, and False to all others.

        A second SIGTERM makes many programs abandon their orderly end.
        """
        try:
            (self.path / "told").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def lock(self) -> int | None:
        """Take the lock for a runner and return the open file that holds the lock; None if a runner lives."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    @property
    def has_runner(self) -> bool:
        """Return whether a runner lives. The kernel drops the lock with its last holder, however the holder ends."""
        try:
            with (self.path / "lock").open("rb") as lock:
                # a shared lock, so that simultaneous checks do not take each other for a runner
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False


def utc_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _read(path: Path, decoder: msgspec.json.Decoder[T]) -> T | None:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableRecord(f"{path} cannot be read: {error.strerror}") from error
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRecord(f"{path} is damaged: {error}") from error


def _write(path: Path, record: Spec | StartRecord | Stop | EndRecord) -> None:
    with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        draft = Path(file.name)
        try:
            file.write(msgspec.json.encode(record))
            file.flush()
            # without this fsync a power cut may leave the name without the content
            os.fsync(file.fileno())
            draft.rename(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
