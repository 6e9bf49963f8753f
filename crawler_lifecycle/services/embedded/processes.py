"""Finds recorded processes again, and ends processes."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from crawler_lifecycle.control.stack_file import Process

CLOCK_TOLERANCE = 0.5  # seconds; far below the time until a pid is used again
PAUSE = 0.05


def describe(name: str, pid: int) -> Process | None:
    try:
        return Process(name=name, pid=pid, created=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def find(recorded: Process) -> psutil.Process | None:
    """Return the recorded process, if it still runs. A pid alone may belong to a new process."""
    try:
        process = psutil.Process(recorded.pid)
        if abs(process.create_time() - recorded.created) < CLOCK_TOLERANCE and _runs(process):
            return process
    except psutil.NoSuchProcess:
        pass
    return None


def members(group: int) -> list[psutil.Process]:
    """Return the running processes of the group, without the present process."""
    running = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and os.getpgid(process.pid) == group and _runs(process):
                running.append(process)
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue
    return running


def end(processes: Iterable[psutil.Process], grace: float) -> None:
    """End the processes: SIGTERM, and after the grace period SIGKILL."""
    alive = list(processes)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        alive = _wait(alive, grace)


def _wait(processes: list[psutil.Process], patience: float) -> list[psutil.Process]:
    """Return the processes that still run. psutil's own wait would count zombies as alive."""
    deadline = time.monotonic() + patience
    while (alive := [process for process in processes if _runs(process)]) and time.monotonic() < deadline:
        time.sleep(PAUSE)  # no event tells of the end of a process that is no child of this process
    return alive


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
