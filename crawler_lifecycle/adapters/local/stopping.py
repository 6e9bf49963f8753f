"""Ask local jobs to end, or kill them.

A stop first writes `stop.json` into the job's folder. A waiting job has no runner, so the stop itself records its end,
under the lock for places. If a job is just starting, its runner reads `stop.json` after creating the process.

An error with one job does not keep other jobs alive: the error is raised after the last job.
"""

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import Layout
from crawler_lifecycle.adapters.local.placing import Placing
from crawler_lifecycle.adapters.local.records import Ended, JobFolder, Spec, Stop, Unreadable
from crawler_lifecycle.errors import TemporaryError

PATIENCE_WITH_KILLED = 2.0  # seconds for killed processes to end


@dataclass(frozen=True, slots=True)
class Stopper:
    layout: Layout
    placing: Placing

    def ask(self, folders: Iterable[JobFolder]) -> None:
        problems = _Problems()
        started = self._write_stops(folders, problems, kill=False)
        survey = processes.survey() if started else []
        for folder in started:
            with problems.collected(folder):
                living = folder.processes(survey)
                if living and folder.claim_signal():
                    processes.send(living, signal.SIGTERM)
        problems.report()

    def kill(self, folders: Iterable[JobFolder]) -> None:
        problems = _Problems()
        started = self._write_stops(folders, problems, kill=True)

        def living() -> list[psutil.Process]:
            survey = processes.survey()
            return [process for folder in started for process in folder.processes(survey)]

        if started:
            processes.kill_until_none(living, PATIENCE_WITH_KILLED)
        problems.report()

    def _write_stops(self, folders: Iterable[JobFolder], problems: "_Problems", *, kill: bool) -> list[JobFolder]:
        """Write `stop.json` for these jobs; return the jobs with processes, now or in a moment."""
        with self.placing.exclusive():
            return [folder for folder in folders if self._may_live(folder, problems, kill=kill)]

    def _may_live(self, folder: JobFolder, problems: "_Problems", *, kill: bool) -> bool:
        with problems.collected(folder):
            return not folder.is_clean and self._write_stop(folder, kill=kill)
        return True  # end the job even if `stop.json` cannot be written: the job itself may have filled the disk

    def _write_stop(self, folder: JobFolder, *, kill: bool) -> bool:
        """Write `stop.json` unless an equal request is on record. Return whether the job may have processes."""
        known = _known_stop(folder)
        is_new = known is None or (kill and not known.kill)
        if is_new:
            folder.write(Stop(at=known.at if known else time.time(), kill=kill))
        may_live = folder.has_runner or folder.has_started or folder.has_ended
        is_ended = not may_live and self._end_waiting(folder)
        if is_new or is_ended:  # repeated requests must not wake a watcher again and again
            self.layout.announce_change(folder.path.parent.name)
        return may_live

    def _end_waiting(self, folder: JobFolder) -> bool:
        """Record a waiting job's end. Return False if its record is unreadable: `stop.json` alone prevents a start."""
        try:
            spec = folder.spec()
        except Unreadable:
            spec = None
        if spec is None:
            self.placing.withdraw_by_name(folder.path.name)
            return False
        folder.write(_never_started(spec))
        self.placing.withdraw(spec)
        return True


class _Problems:
    """Collected problems with single jobs."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    @contextmanager
    def collected(self, folder: JobFolder) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._problems.append(f"{folder.path.name}: {error}")

    def report(self) -> None:
        if self._problems:
            others = f" (and {len(self._problems) - 1} more jobs)" if len(self._problems) > 1 else ""
            raise TemporaryError(f"the local cluster could not note the end of {self._problems[0]}{others}")


def _known_stop(folder: JobFolder) -> Stop | None:
    try:
        return folder.stop()
    except Unreadable:
        return None  # the record is written anew


def _never_started(spec: Spec) -> Ended:
    return Ended(
        uid=spec.uid,
        installation=spec.installation,
        at=time.time(),
        code=None,
        reason="stopped_before_start",
        message="stopped before it was started",
        started_at=None,
        stop_asked=True,
    )
