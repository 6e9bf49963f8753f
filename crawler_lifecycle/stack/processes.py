"""Ends processes, and finds the processes of a group."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from crawler_lifecycle.settings.stack_processes import is_running

PAUSE = 0.05  # seconds between two looks at processes that have to end


def members(group: int) -> list[psutil.Process]:
    """Return the running processes of a process group, without the present process."""
    running = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and os.getpgid(process.pid) == group and is_running(process):
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
    while (alive := [process for process in processes if is_running(process)]) and time.monotonic() < deadline:
        time.sleep(PAUSE)  # no event announces the end, except for children
    return alive
