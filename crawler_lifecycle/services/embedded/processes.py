"""Is that process still the one we started, and how do we end it?"""

import os
import signal
import time
from collections.abc import Iterable

import psutil

from crawler_lifecycle.control.stack_file import Process

CLOCK_TOLERANCE = 0.5


def describe(name: str, pid: int) -> Process | None:
    try:
        return Process(name=name, pid=pid, created=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def find(recorded: Process) -> psutil.Process | None:
    """The process that was recorded, if it still runs: a pid alone may be somebody else's by now."""
    try:
        process = psutil.Process(recorded.pid)
        if abs(process.create_time() - recorded.created) < CLOCK_TOLERANCE and _runs(process):
            return process
    except psutil.NoSuchProcess:
        pass
    return None


def members(group: int) -> list[psutil.Process]:
    """All that runs in this process group, but for the one who asks."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and os.getpgid(process.pid) == group and _runs(process):
                found.append(process)
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue
    return found


def end(processes: Iterable[psutil.Process], grace: float) -> None:
    """Asked first, made to after the grace period."""
    alive = [process for process in processes if _signal(process, signal.SIGTERM)]
    deadline = time.monotonic() + grace
    _, alive = psutil.wait_procs(alive, timeout=max(0.0, deadline - time.monotonic()))
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=grace)


def _signal(process: psutil.Process, number: signal.Signals) -> bool:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def _runs(process: psutil.Process) -> bool:
    return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
