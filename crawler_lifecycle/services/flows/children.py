"""Children: processes of a host with authors' code. A channel connects the child with its host."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from crawler_lifecycle.services.flows.channel import Channel

KILL_SECONDS = 5.0  # between SIGTERM and SIGKILL


class Child:
    """A process in a session of its own. The main thread starts the child.

    Linux ends the child together with the thread that has started it. `main`: module with the child's main, which gets
    the channel's descriptor as its argument.
    """

    def __init__(self, main: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the process. `environment`: default: the host's."""
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", main, str(descriptor)],
                stdin=subprocess.DEVNULL,
                pass_fds=[descriptor],
                start_new_session=True,
                env=environment,
            )
        self.channel = Channel(ours)
        threading.Thread(target=self._wait, name=f"child-{self._process.pid}", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, message: dict[str, object]) -> None:
        with suppress(OSError):  # the receiver notices the end of a dead child
            self.channel.send(message)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal to the child and all its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def kill_if_alive(self) -> None:
        if self.is_alive:
            self.kill()

    def cause_of_end(self) -> str:
        """Wait for the end, and return its cause in words."""
        status = self._process.wait()
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def _wait(self) -> None:
        """Wait for the end of the child, then kill its children: they may hold the connection open."""
        self._process.wait()
        self.kill()
        self.channel.close()
