"""Ends a process with its parent."""

import ctypes
import os
import signal
import sys
from typing import NoReturn

SIGNAL_AT_PARENTS_END = 1  # PR_SET_PDEATHSIG


def end_with_parent(number: signal.Signals) -> None:
    """Let Linux send the signal to the process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SIGNAL_AT_PARENTS_END, number)


def end_with_children() -> NoReturn:
    """Kill the process with all its children."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
