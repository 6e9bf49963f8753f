"""Has a job left processes behind when its first one ends? On Linux that is one question to the kernel.

Going through all processes of the machine costs a fraction of a second, which every runner would spend at the end of
its job: a thousand jobs that end at once would take minutes. So a runner adopts what its job leaves behind.
"""

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> bool:
    """From here on a process whose parent ends becomes ours, if it descends from us. False where that cannot be."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def wait_for(pid: int) -> int:
    """The exit code of this child (negative: the signal that ended it). Others that end meanwhile are forgotten."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def none_left() -> bool:
    """Whether we have no child any more."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
