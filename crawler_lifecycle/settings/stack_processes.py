"""Describes processes for the stack's file, and finds the described processes again."""

import psutil

from crawler_lifecycle.settings.stack_file import Process

CLOCK_TOLERANCE = 0.5  # seconds between two readings of a start time; a pid is used again only much later


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
        if abs(process.create_time() - recorded.created) < CLOCK_TOLERANCE and is_running(process):
            return process
    except psutil.NoSuchProcess:
        pass
    return None


def is_running(process: psutil.Process) -> bool:
    """Return whether the process runs. A zombie has ended, although its pid exists."""
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
