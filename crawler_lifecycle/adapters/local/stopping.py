"""How are jobs asked to end, and made to?

The wish is written down first. A job that has not started gets its end here, under the lock that placing takes;
one that is just starting is told by its runner, which reads the wish after it made the process.
"""

import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import Layout
from crawler_lifecycle.adapters.local.placing import Placing
from crawler_lifecycle.adapters.local.records import Ended, JobFolder, Spec, Stop, Unreadable

PATIENCE_WITH_KILLED = 2.0


@dataclass(frozen=True, slots=True)
class Stopping:
    layout: Layout
    placing: Placing

    def ask(self, folders: Iterable[JobFolder]) -> None:
        started = self._note(folders, kill=False)
        survey = processes.survey() if started else []
        for folder in started:
            found = _processes(folder, survey)
            if found and folder.may_tell():
                processes.send(found, signal.SIGTERM)

    def kill(self, folders: Iterable[JobFolder]) -> None:
        folders = list(folders)
        try:
            self._end(self._note(folders, kill=True))
        except (OSError, Unreadable):
            self._end(folders)  # a full disk must not keep alive what fills it
            raise

    def _end(self, folders: list[JobFolder]) -> None:
        def living() -> list[psutil.Process]:
            survey = processes.survey()
            return [process for folder in folders for process in _processes(folder, survey)]

        if folders:
            processes.kill_until_none(living, PATIENCE_WITH_KILLED)

    def _note(self, folders: Iterable[JobFolder], *, kill: bool) -> list[JobFolder]:
        """Write the wish down; those jobs that have started, or are about to."""
        with self.placing.exclusive():
            return [folder for folder in folders if not folder.has_ended and self._note_one(folder, kill=kill)]

    def _note_one(self, folder: JobFolder, *, kill: bool) -> bool:
        spec, known = folder.spec(), folder.stop()
        if spec is None:
            return False
        is_new = known is None or (kill and not known.kill)
        if is_new:
            folder.write(Stop(at=known.at if known else time.time(), kill=kill))
        started = folder.has_runner or folder.has_started
        if not started:
            folder.write(_never_started(spec))
            self.placing.withdraw(spec)
        if is_new or not started:  # whoever asks again and again must not be woken by it
            self.layout.announce_change(spec.run_uid)
        return started


def _processes(folder: JobFolder, survey: list[processes.Seen]) -> list[psutil.Process]:
    spec, started = folder.spec(), folder.started()
    return processes.of_job(survey, spec.uid, started.first if started else None) if spec else []


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
