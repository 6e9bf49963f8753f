"""Hides a process's secrets from the user's further processes, such as crawls in a local cluster.

On Linux, a process reads environment and memory from each dumpable process with the same user. If a process is not
dumpable, root owns its folder in /proc: `environ`, `mem`, `fd`, `cwd` and `exe` are closed, debuggers cannot attach,
and a crash writes no core dump. Command line, status and start time stay readable, and signals arrive. Root still reads
everything. A new program, such as a job, is dumpable again.
"""

import ctypes
import os
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawler_lifecycle.settings import Settings

SET_DUMPABLE = 4  # PR_SET_DUMPABLE


def hide_process() -> None:
    """Close the process to the user's further processes. Every main calls the function first."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)


def forget_secrets(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Remove secrets and their files' names from the environment, once the settings are read: children inherit it.

    Return the removed variables.
    """
    from crawler_lifecycle.settings.configuration import (
        secret_variables,  # slow, and the reaper has no need for the import
    )

    secret = secret_variables()
    names = [name for name in environment if name.upper().removesuffix("_FILE") in secret]
    return {name: environment.pop(name) for name in names}


def keep_installation() -> "Settings":
    """Keep the installation for clients in authors' functions, then forget its secrets. Return the settings."""
    from crawler_lifecycle.settings import installation

    located = installation.locate()
    installation.Kept.keep(located, forget_secrets())
    return located.settings
