"""Find the processes of a job, and end them.

A process belongs to a job if the process carries the job's uid in its environment, is the job's first process, or is in
the session that the first process opened. Children inherit the environment and the session, even when their parents are
long dead. Where no record has the uid, the job's name in the environment decides.

A walk through all processes on the machine takes a fraction of a second, so a thousand jobs that end at once would
take minutes. On Linux a runner becomes the parent of its job's orphans instead, and asks the kernel for its children.
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

MARK = "CRAWL_JOB_UID"
NAME = "CRAWL_JOB_NAME"
CLOCK_SLACK = 2.0  # seconds by which a process's creation time may seem to move
ROUND = 0.2  # seconds between two kills: a process may fork before its end
YOUNG = 5.0  # seconds; an older program without an environment has none for good
PAUSE_FOR_BLANK = 0.01  # seconds between two tries to read an environment that does not show yet
TRIES_FOR_BLANK = 10


@dataclass(frozen=True, slots=True)
class First:
    """The first process of a job: a pid with its creation time, since pids are reused."""

    pid: int
    created: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A process in a survey, with everything that may tell its job."""

    process: psutil.Process
    created: float
    session: int | None
    mark: str | None
    name: str | None
    is_blank: bool  # in its first moment a program shows no environment: its job is not known yet


def survey() -> list[Seen]:
    """Return every living process except this process. A zombie counts as dead."""
    seen = _see_all(pid for pid in psutil.pids() if pid != os.getpid())
    for _ in range(TRIES_FOR_BLANK):
        blank = [item.process.pid for item in seen if item.is_blank]
        if not blank:
            break
        time.sleep(PAUSE_FOR_BLANK)  # no event tells when a program shows its environment
        seen = [item for item in seen if not item.is_blank] + _see_all(blank)
    return seen


def of_job(survey: Iterable[Seen], uid: str, first: First | None) -> list[psutil.Process]:
    everyone = list(survey)
    session = first.pid if first and _session_is_ours(everyone, first) else None
    return [
        seen.process
        for seen in everyone
        if seen.mark == uid
        or (session is not None and seen.session == session)
        or (first and seen.process.pid == first.pid and _same_time(seen.created, first.created))
    ]


def of_name(survey: Iterable[Seen], name: str) -> list[psutil.Process]:
    return [seen.process for seen in survey if seen.name == name]


def send(processes: Iterable[psutil.Process], signal: int) -> None:
    for process in processes:
        # the process is gone, or has another user id: the survey decides again
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(signal)


def kill_until_none(find: Callable[[], list[psutil.Process]], patience: float) -> int:
    """Kill the processes that `find` returns until `find` returns none; return how many remain at the time-out."""
    end = time.monotonic() + patience
    while (living := find()) and time.monotonic() < end:
        send(living, SIGKILL)
        psutil.wait_procs(living, timeout=ROUND)
    return len(living)


def created(pid: int) -> float:
    """Return the process's creation time, also if the process has just ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return time.time()


def _see_all(pids: Iterable[int]) -> list[Seen]:
    return [seen for pid in pids if (seen := _see(pid))]


def _see(pid: int) -> Seen | None:
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        environment = _environment(process)
        return Seen(
            process=process,
            created=process.create_time(),
            session=_session(pid),
            mark=environment.get(MARK),
            name=environment.get(NAME),
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
        return time.time() - process.create_time() < YOUNG and bool(process.exe())
    except (psutil.AccessDenied, OSError):
        return False


def _session_is_ours(everyone: Iterable[Seen], first: First) -> bool:
    """Return whether the session is the job's. A session number is a pid, and another session may reuse the pid."""
    if first.created < psutil.boot_time() - CLOCK_SLACK:
        return False
    return all(_same_time(seen.created, first.created) for seen in everyone if seen.process.pid == first.pid)


def _same_time(first: float, second: float) -> bool:
    return abs(first - second) < CLOCK_SLACK


PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Become the parent of descendants after their own parent's end. Return False where the system cannot do so."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def wait_for_child(pid: int) -> int:
    """Return the child's exit code; a negative code is the signal that ended the child. Reap other children."""
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
