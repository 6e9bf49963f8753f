"""Ask local jobs to end, or kill local jobs.

A stop first writes `stop.json` into the job's folder. A waiting job has no runner, so the stop itself records the job's
end, under the lock for places. If a job is just starting, its runner reads `stop.json` after creating the process.

An error with one job does not keep other jobs alive: the error is raised after the last job.
"""

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.placing import Placing
from crawler_lifecycle.clusters.local.records import EndRecord, JobFolder, Layout, Spec, Stop, UnreadableRecord
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.reasons import STOPPED_BEFORE_START

PATIENCE_WITH_KILLED = 2.0  # seconds for killed processes to end


@dataclass(frozen=True, slots=True)
class Stopper:
    layout: Layout
    placing: Placing

    def ask_to_end(self, folders: Iterable[JobFolder]) -> None:
        """Send SIGTERM to these jobs, once to each job however often the stop is repeated."""
        problems = _Problems()
        with_processes = self._write_stops(folders, problems, kill=False)
        survey = processes.survey() if with_processes else []
        for folder in with_processes:
            with problems.collected(folder):
                living = folder.processes(survey)
                if living and folder.claim_signal():
                    processes.send(living, signal.SIGTERM)
        problems.report()

    def kill(self, folders: Iterable[JobFolder]) -> None:
        """Kill all these jobs' processes. A surviving process is left to the next call."""
        problems = _Problems()
        with_processes = self._write_stops(folders, problems, kill=True)

        def living() -> list[psutil.Process]:
            survey = processes.survey()
            return [process for folder in with_processes for process in folder.processes(survey)]

        if with_processes:
            processes.kill_until_none(living, PATIENCE_WITH_KILLED)
        problems.report()

    def _write_stops(self, folders: Iterable[JobFolder], problems: "_Problems", *, kill: bool) -> list[JobFolder]:
        """Write `stop.json` for these jobs. Return the jobs that have processes, or may have processes in a moment."""
        with self.placing.exclusive():
            return [folder for folder in folders if self._prepare_stop(folder, problems, kill=kill)]

    def _prepare_stop(self, folder: JobFolder, problems: "_Problems", *, kill: bool) -> bool:
        """Write the job's `stop.json` unless the job is over. Return whether the job may have processes.

        True also after an error, which goes to `problems`: the job itself may have filled the disk, and has to end.
        """
        with problems.collected(folder):
            return not folder.is_clean and self._write_stop(folder, kill=kill)
        return True

    def _write_stop(self, folder: JobFolder, *, kill: bool) -> bool:
        """Write `stop.json` unless an equal request is recorded. Return whether the job may have processes."""
        recorded = _recorded_stop(folder)
        is_new = recorded is None or (kill and not recorded.kill)
        if is_new:
            folder.write(Stop(at=recorded.at if recorded else time.time(), kill=kill))
        may_live = folder.has_runner or folder.has_started or folder.has_ended
        is_ended = not may_live and self._end_waiting(folder)
        if is_new or is_ended:  # repeated requests must not wake a watcher again and again
            self.layout.announce_change(folder.path.parent.name)
        return may_live

    def _end_waiting(self, folder: JobFolder) -> bool:
        """Record a waiting job's end. Return False if its record is unreadable: `stop.json` alone prevents a start."""
        try:
            spec = folder.spec()
        except UnreadableRecord:
            spec = None
        if spec is None:
            self.placing.withdraw_by_name(folder.path.name)
            return False
        folder.write(_end_before_start(spec))
        self.placing.withdraw(spec)
        return True


class _Problems:
    """Problems with single jobs, collected to be raised together."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    @contextmanager
    def collected(self, folder: JobFolder) -> Iterator[None]:
        """Collect an OSError from the block, and do not raise the error."""
        try:
            yield
        except OSError as error:
            self._problems.append(f"{folder.path.name}: {error}")

    def report(self) -> None:
        """Raise TemporaryError if a problem was collected."""
        if self._problems:
            others = f" (and {len(self._problems) - 1} more jobs)" if len(self._problems) > 1 else ""
            raise TemporaryError(f"the local cluster could not note the end of {self._problems[0]}{others}")


def _recorded_stop(folder: JobFolder) -> Stop | None:
    """Return the recorded request; None without a readable record, so that the record is written."""
    try:
        return folder.stop()
    except UnreadableRecord:
        return None


def _end_before_start(spec: Spec) -> EndRecord:
    return EndRecord(
        uid=spec.uid,
        installation=spec.installation,
        at=time.time(),
        code=None,
        reason=STOPPED_BEFORE_START,
        message="stopped before it was started",
        started_at=None,
        stop_asked=True,
    )
