"""Find the processes of a job, and end them.

A process belongs to a job if the process carries the job's uid in its environment, is the job's first process, or is in
the session that the first process opened. Children inherit the environment and the session, even when their parents are
long dead. Where no record has the uid, the job's name in the environment decides.

A survey of all processes on the machine takes a fraction of a second, so the surveys for a thousand jobs that end at
once would take minutes. On Linux a runner becomes the parent of its job's orphans instead, and asks the kernel for its
children.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from signal import SIGKILL

import psutil

# environment variables of a job's processes
UID_VARIABLE = "CRAWL_JOB_UID"
NAME_VARIABLE = "CRAWL_JOB_NAME"
CLOCK_SLACK = 2.0  # largest difference, in seconds, between two readings of a process's creation time
KILL_PAUSE = 0.2  # seconds between two kills: a process may fork before its end
# A program shows no environment in its first moment. An older program without an environment has none for good.
YOUNG_SECONDS = 5.0
BLANK_PAUSE = 0.01  # seconds between two tries to read young programs' environments
BLANK_TRIES = 10


@dataclass(frozen=True, slots=True)
class FirstProcess:
    """The first process of a job: a pid with its creation time, since pids are reused."""

    pid: int
    created: float


@dataclass(frozen=True, slots=True)
class SurveyedProcess:
    """A process in a survey, with everything that may identify its job. None: the process does not show the value."""

    process: psutil.Process
    created: float
    session: int | None
    job_uid: str | None
    job_name: str | None
    is_blank: bool  # a young program without an environment: its job is not known yet


def survey() -> list[SurveyedProcess]:
    """Return every living process except this process. A zombie counts as dead."""
    surveyed = _survey_of(pid for pid in psutil.pids() if pid != os.getpid())
    for _ in range(BLANK_TRIES):
        blank_pids = [item.process.pid for item in surveyed if item.is_blank]
        if not blank_pids:
            break
        time.sleep(BLANK_PAUSE)  # no event shows when a program shows its environment
        surveyed = [item for item in surveyed if not item.is_blank] + _survey_of(blank_pids)
    return surveyed


def of_job(survey: Iterable[SurveyedProcess], uid: str, first: FirstProcess | None) -> list[psutil.Process]:
    """Return the processes for the job with the uid. `first` is None if the first process is not recorded."""
    everyone = list(survey)
    session = first.pid if first and _first_process_has_session(everyone, first) else None

    def belongs_to_job(item: SurveyedProcess) -> bool:
        if item.job_uid == uid or (session is not None and item.session == session):
            return True
        return first is not None and _is_first_process(item, first)

    return [item.process for item in everyone if belongs_to_job(item)]


def of_name(survey: Iterable[SurveyedProcess], name: str) -> list[psutil.Process]:
    """Return the processes with the job's name in their environment."""
    return [item.process for item in survey if item.job_name == name]


def send(processes: Iterable[psutil.Process], signal: int) -> None:
    for process in processes:
        # the process has ended, or belongs to another user; the next survey shows whether the process still lives
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(signal)


def kill_until_none(find: Callable[[], list[psutil.Process]], patience: float) -> int:
    """Kill the processes that `find` returns until `find` returns none. Return how many live after the patience."""
    end = time.monotonic() + patience
    while (living := find()) and time.monotonic() < end:
        send(living, SIGKILL)
        psutil.wait_procs(living, timeout=KILL_PAUSE)
    return len(living)


def created(pid: int) -> float:
    """Return the process's creation time; the present time if the process has just ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return time.time()


def _survey_of(pids: Iterable[int]) -> list[SurveyedProcess]:
    processes = (_surveyed(pid) for pid in pids)
    return [process for process in processes if process]


def _surveyed(pid: int) -> SurveyedProcess | None:
    """Return the process; None if the process does not live."""
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        environment = _environment(process)
        return SurveyedProcess(
            process=process,
            created=process.create_time(),
            session=_session(pid),
            job_uid=environment.get(UID_VARIABLE),
            job_name=environment.get(NAME_VARIABLE),
            is_blank=not environment and _is_young_program(process),
        )
    except psutil.NoSuchProcess:
        return None


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.AccessDenied, OSError):
        return {}


def _is_young_program(process: psutil.Process) -> bool:
    try:
        return time.time() - process.create_time() < YOUNG_SECONDS and bool(process.exe())
    except (psutil.AccessDenied, OSError):
        return False


def _first_process_has_session(everyone: Iterable[SurveyedProcess], first: FirstProcess) -> bool:
    """Return whether the session with the first process's pid is the job's, and not a later session with the same pid.

    False if the machine was started since, or if the pid belongs to another process now.
    """
    if first.created < psutil.boot_time() - CLOCK_SLACK:
        return False
    return all(_is_first_process(item, first) for item in everyone if item.process.pid == first.pid)


def _is_first_process(item: SurveyedProcess, first: FirstProcess) -> bool:
    return item.process.pid == first.pid and _are_equal_times(item.created, first.created)


def _are_equal_times(one: float, other: float) -> bool:
    return abs(one - other) < CLOCK_SLACK


PR_SET_CHILD_SUBREAPER = 36  # option of Linux's prctl


def adopt_orphans() -> bool:
    """Become the parent of descendants after their own parent's end. Return False if the system cannot do so."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def wait_for_child(pid: int) -> int:
    """Wait for the child and return its exit code; a negative code is the signal that ended the child.

    Reap further children in the meantime, so no zombies remain.
    """
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def has_no_child() -> bool:
    """Reap ended children. Return whether no child of this process is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
