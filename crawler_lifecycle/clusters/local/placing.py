"""The queue of waiting jobs: jobs start in order, and at most `capacity` jobs run at once.

A job's place is an empty file, first in the folder `waiting` and, from the job's start on, in the folder `running`. All
processes that change places hold the same lock, `placing.lock`. The next call to `start_waiting` repairs an interrupted
operation.

A started job has a runner, a process that starts the job's program and waits for its end. The job's own lock is taken
before the runner starts, and the runner inherits the lock, so no look takes a starting runner for dead.
"""

import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crawler_lifecycle.clusters.adapters.regular_files import open_regular
from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.records import (
    JOB_NAME,
    JobFolder,
    Layout,
    Spec,
    UnreadableRecord,
    job_name_of,
    names,
)

logger = logging.getLogger(__name__)
RUNNER = "crawler_lifecycle.clusters.local.runner"
# a runner inherits only these variables, needed by programs: all further variables may hold secrets
PASSED_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        # without these variables the runner, a Python program, might not find its modules
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "LD_LIBRARY_PATH"),
    }
)


# runners started by this process: without `poll` by their parent, ended runners would stay as zombies
_runners: list[subprocess.Popen[bytes]] = []


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a runner. A crawler's own variables come from its catalogue entry."""
    return {name: value for name, value in environment.items() if name in PASSED_VARIABLES}


@dataclass(frozen=True, slots=True)
class Placing:
    """The jobs' places. At most `capacity` jobs run at once."""

    layout: Layout
    capacity: int

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold `placing.lock` during the block. Raise FileNotFoundError while the root folder is away."""
        if self.layout.is_away:
            raise FileNotFoundError(self.layout.missing)
        with self.layout.placing_lock.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def enqueue(self, spec: Spec) -> None:
        (self.layout.waiting / spec.place).touch()

    def withdraw(self, spec: Spec) -> None:
        """Remove a waiting job's place."""
        (self.layout.waiting / spec.place).unlink(missing_ok=True)

    def withdraw_by_name(self, job_name: str) -> None:
        """Remove a waiting job's place by the job's name: an unreadable record does not name the place."""
        for place in names(self.layout.waiting):
            if job_name_of(place) == job_name:
                (self.layout.waiting / place).unlink(missing_ok=True)

    def free(self, spec: Spec) -> None:
        """Remove a job's place after the job's end."""
        (self.layout.running / spec.place).unlink(missing_ok=True)

    def has_waiting(self) -> bool:
        with os.scandir(self.layout.waiting) as places:
            return any(True for _ in places)

    def start_waiting(self) -> None:
        """Start waiting jobs while there is room. Callers hold `exclusive`."""
        self._clear_drafts()
        _runners[:] = [runner for runner in _runners if runner.poll() is None]
        self._clear_running()
        room = self.capacity - len(_sorted_places(self.layout.running))
        if room <= 0:
            return  # without room, do not list the queue, which may be long
        for place in _sorted_places(self.layout.waiting):
            if self._start_if_possible(place):
                room -= 1
            if room <= 0:
                return

    def _clear_drafts(self) -> None:
        """Remove unfinished job folders: their creators have died, since jobs are created under `exclusive`."""
        for draft in names(self.layout.new):
            shutil.rmtree(self.layout.new / draft, ignore_errors=True)

    def _clear_running(self) -> None:
        """Free the places of jobs that do not run any more."""
        for place in _sorted_places(self.layout.running):
            job = self._job_folder(place)
            if not _may_live(job):
                self._free_or_requeue(job, self.layout.running / place)

    def _free_or_requeue(self, job: JobFolder, running_place: Path) -> None:
        """Remove the place of a job that does not run. If the job was not even started, let the job wait again."""
        if job.path.exists() and not job.has_started and not job.has_ended:
            running_place.rename(self.layout.waiting / running_place.name)  # the runner died before its first record
            return
        if not job.has_ended:
            self.layout.announce_change(job.path.parent.name)  # the runner is gone, and no record shows the end
        running_place.unlink(missing_ok=True)

    def _start_if_possible(self, place: str) -> bool:
        """Start the job with this waiting place. Return False if the job cannot be started now."""
        job = self._job_folder(place)
        waiting_place = self.layout.waiting / place
        try:
            if job.has_started or job.has_ended or not job.spec():
                # No job waits here: an interrupted start has left the place of a started job, or an interrupted
                # creation has left a place without a job.
                waiting_place.unlink(missing_ok=True)
                return False
            lock = job.lock()
            if lock is None:  # a runner lives: a later call finds the job started, and removes the waiting place
                return False
        except (UnreadableRecord, OSError) as error:
            logger.debug("%s cannot be placed: %s", place, error)
            return False
        running_place = waiting_place.rename(self.layout.running / place)
        try:
            self._start_runner(job, lock)
        except OSError as error:
            logger.warning("%s could not be started and waits on: %s", job.path.name, error)
            running_place.rename(waiting_place)
            return False
        finally:
            os.close(lock)
        return True

    def _start_runner(self, job: JobFolder, lock: int) -> None:
        with os.fdopen(open_regular(job.path / "runner.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as log:
            arguments = [str(self.layout.root), job.path.name, str(self.capacity), str(lock)]
            runner = subprocess.Popen(
                [sys.executable, "-P", "-X", "utf8", "-m", RUNNER, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=job.path,
                env=passed_on(os.environ),
                pass_fds=(lock,),
                start_new_session=True,
            )
        _runners.append(runner)

    def _job_folder(self, place: str) -> JobFolder:
        return JobFolder(self.layout.job(job_name_of(place)))


def _may_live(job: JobFolder) -> bool:
    """Return whether the job has a runner or processes, or cannot be read.

    An unreadable job keeps its place: a person can repair too few starts, but not too many.
    """
    try:
        if job.has_ended:
            return False
        return job.has_runner or (job.has_started and bool(job.processes(processes.survey())))
    except OSError:
        return True


def place_name(created_at_ns: int, job_name: str) -> str:
    """Return a name for a job's place. Names sort by time."""
    return f"{created_at_ns:020d}-{job_name}"


def _sorted_places(folder: Path) -> list[str]:
    """Return the folder's places, oldest first."""
    return sorted(place for place in names(folder) if JOB_NAME.fullmatch(job_name_of(place)))
