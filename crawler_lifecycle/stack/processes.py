"""Describes processes for a record, finds recorded processes again, and ends processes."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from crawler_lifecycle.settings.stack_file import Process

CLOCK_TOLERANCE = 0.5  # seconds between two readings of a start time; a pid is used again only much later
PAUSE = 0.05  # seconds between two looks at processes that have to end


def describe(name: str, pid: int) -> Process | None:
    """Return the record of a process, or None if the process has ended."""
    try:
        return Process(name=name, pid=pid, created=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def find(recorded: Process) -> psutil.Process | None:
    """Return the recorded process, or None if the process has ended. A new process may have the same pid."""
    try:
        process = psutil.Process(recorded.pid)
        if abs(process.create_time() - recorded.created) < CLOCK_TOLERANCE and _is_running(process):
            return process
    except psutil.NoSuchProcess:
        pass
    return None


def members(group: int) -> list[psutil.Process]:
    """Return the running processes of a process group, without the present process."""
    running = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and os.getpgid(process.pid) == group and _is_running(process):
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
    """Wait until the processes have ended, and return the processes that still run.

    `psutil.wait_procs` would wait for zombies, which have ended.
    """
    deadline = time.monotonic() + patience
    while (alive := [process for process in processes if _is_running(process)]) and time.monotonic() < deadline:
        time.sleep(PAUSE)  # no event announces the end, except for children
    return alive


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
