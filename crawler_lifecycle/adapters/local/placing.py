"""The queue of waiting jobs: jobs start in order, and at most `capacity` jobs run at once.

A job's place is an empty file, first in the folder `waiting` and, from the job's start on, in the folder `running`. All
processes that change places hold the same lock, `placing.lock`. A job's own lock is taken before its runner starts, and
the runner inherits the lock, so no look takes a starting runner for dead. The next call to `start_waiting` repairs an
interrupted operation.

A runner inherits only the environment variables without which programs do not run. Any other variable may hold a
secret. A crawler's own variables stand in the `environment` of its catalogue entry.
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

from crawler_lifecycle.adapters.local import processes
from crawler_lifecycle.adapters.local.layout import JOB_NAME, Layout, names
from crawler_lifecycle.adapters.local.records import JobFolder, Spec, Unreadable
from crawler_lifecycle.adapters.regular_files import open_regular

PASSED_ON = frozenset(
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


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in PASSED_ON}


logger = logging.getLogger(__name__)
RUNNER = "crawler_lifecycle.adapters.local.runner"

# runners of this process: without `poll` by their parent, ended runners would stay as zombies
_runners: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Placing:
    layout: Layout
    capacity: int

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        if self.layout.is_away:
            raise FileNotFoundError(self.layout.missing)
        with self.layout.placing_lock.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def enqueue(self, spec: Spec) -> None:
        (self.layout.waiting / spec.place).touch()

    def withdraw(self, spec: Spec) -> None:
        (self.layout.waiting / spec.place).unlink(missing_ok=True)

    def withdraw_by_name(self, job_name: str) -> None:
        """Withdraw the place of a job with an unreadable record, which does not tell the place."""
        for place in names(self.layout.waiting):
            if _name(place) == job_name:
                (self.layout.waiting / place).unlink(missing_ok=True)

    def free(self, spec: Spec) -> None:
        """Remove the place of a job after its end."""
        (self.layout.running / spec.place).unlink(missing_ok=True)

    def has_waiting(self) -> bool:
        with os.scandir(self.layout.waiting) as places:
            return any(True for _ in places)

    def start_waiting(self) -> None:
        """Start waiting jobs while there is room. Callers hold `exclusive`."""
        self._clear_drafts()
        _runners[:] = [runner for runner in _runners if runner.poll() is None]
        self._clear_running()
        room = self.capacity - len(_places(self.layout.running))
        if room <= 0:
            return  # a full cluster needs no listing: the queue may be long
        for place in _places(self.layout.waiting):
            room -= self._try_to_start(place)
            if room <= 0:
                return

    def _clear_drafts(self) -> None:
        """Remove unfinished job folders: their creators have died, since jobs are created under `exclusive`."""
        for draft in names(self.layout.new):
            shutil.rmtree(self.layout.new / draft, ignore_errors=True)

    def _clear_running(self) -> None:
        """Free the places of jobs that do not run any more."""
        for place in _places(self.layout.running):
            job = self._job(place)
            if not _may_live(job):
                self._free_or_requeue(job, self.layout.running / place)

    def _free_or_requeue(self, job: JobFolder, marker: Path) -> None:
        if job.path.exists() and not job.has_started and not job.has_ended:
            marker.rename(self.layout.waiting / marker.name)  # the runner died before its first record: start anew
            return
        if not job.has_ended:
            self.layout.announce_change(job.path.parent.name)  # the job vanished without a record
        marker.unlink(missing_ok=True)

    def _try_to_start(self, place: str) -> bool:
        """Start the waiting place's job. Return False if the job cannot be started now."""
        job = self._job(place)
        marker = self.layout.waiting / place
        try:
            if job.has_started or job.has_ended or not job.spec():
                # the claim was interrupted before the folder existed, or the job was started already
                marker.unlink(missing_ok=True)
                return False
            lock = job.lock()
            if lock is None:
                return False
        except (Unreadable, OSError) as error:
            logger.debug("%s cannot be placed: %s", place, error)
            return False
        taken = marker.rename(self.layout.running / place)
        try:
            self._start_runner(job, lock)
        except OSError as error:
            logger.warning("%s could not be started and waits on: %s", job.path.name, error)
            taken.rename(marker)
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

    def _job(self, place: str) -> JobFolder:
        return JobFolder(self.layout.job(_name(place)))


def _may_live(job: JobFolder) -> bool:
    try:
        return not job.has_ended and (job.has_runner or _lives_without_runner(job))
    except OSError:
        return True  # an unreadable job keeps its place: a person can repair too few starts, but not too many


def _lives_without_runner(job: JobFolder) -> bool:
    return job.has_started and bool(job.processes(processes.survey()))


def place_name(claimed_at_ns: int, job_name: str) -> str:
    """Return a name for the place that sorts by time."""
    return f"{claimed_at_ns:020d}-{job_name}"


def _places(folder: Path) -> list[str]:
    return sorted(place for place in names(folder) if JOB_NAME.fullmatch(_name(place)))


def _name(place: str) -> str:
    return place.partition("-")[2]
