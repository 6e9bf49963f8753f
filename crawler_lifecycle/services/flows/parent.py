"""Ends a process with its parent."""

import ctypes
import signal
import sys

SIGNAL_AT_PARENTS_END = 1  # PR_SET_PDEATHSIG


def end_with_parent(number: signal.Signals) -> None:
    """Let Linux send the signal to the process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SIGNAL_AT_PARENTS_END, number)
