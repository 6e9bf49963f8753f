"""Processes of a host with authors' code, which end with their parent.

A channel connects the child with its host: messages as JSON with their lengths in front.
"""

import ctypes
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

logger = logging.getLogger(__name__)
LENGTH = struct.Struct(">I")
TIME = struct.Struct("@ll")  # seconds and microseconds, for the socket's option
LARGEST_MESSAGE = 256 * 1024 * 1024  # bytes; a greater length is no length, since authors may write to any descriptor
SIGNAL_AT_PARENTS_END = 1  # PR_SET_PDEATHSIG
KILL_SECONDS = 5.0  # between SIGTERM and SIGKILL
LONGEST_LINE = 8192  # bytes; the rest of a longer line is a further line


class Channel:
    """A socket of a pair. Several threads may send; a single thread receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. OSError if the receiver has ended, or takes nothing for too long."""
        content = json.dumps(message).encode()
        with self._sending:
            self._socket.sendall(LENGTH.pack(len(content)) + content)

    def receive(self) -> dict[str, Any] | None:
        """Wait for a message; None if the sender has ended, or has sent something else."""
        head = self._exactly(LENGTH.size)
        size = 0 if head is None else LENGTH.unpack(head)[0]
        content = self._exactly(size) if 0 < size <= LARGEST_MESSAGE else None
        try:
            message = None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            message = None
        if head is not None and content is not None and not isinstance(message, dict):
            logger.warning("a process with author's code has sent something that is no message")
        return message if isinstance(message, dict) else None

    def limit_sending(self, seconds: float) -> None:
        """Let `send` fail if the receiver takes nothing within the time."""
        option = TIME.pack(int(seconds), int(seconds % 1 * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, option)

    def end(self) -> None:
        """Break the connection. The receiving thread still gets the messages from before."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(min(size - len(parts), 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


def end_with_parent(number: signal.Signals) -> None:
    """Let Linux send the signal to the process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SIGNAL_AT_PARENTS_END, number)


def end_with_children() -> NoReturn:
    """Kill the process with all its children."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


class Child:
    """A process in a session of its own. The main thread starts the child.

    Linux ends the child together with the thread that has started it. `main`: module with the child's main, which gets
    the channel's descriptor as its argument.
    """

    def __init__(
        self,
        main: str,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start the process. `environment`, `folder`: default: the host's environment and working directory.

        `on_line`: gets the lines that the process prints.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", *(["-u"] if on_line else []), "-m", main, str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if on_line else None,
                stderr=subprocess.STDOUT if on_line else None,
                pass_fds=[descriptor],
                start_new_session=True,
                env=environment,
                cwd=folder,
            )
        self.channel = Channel(ours)
        self._reader: threading.Thread | None = None
        if on_line is not None:
            lines = (self._process.stdout, on_line)
            self._reader = threading.Thread(target=_read, args=lines, name=f"lines-{self._process.pid}", daemon=True)
            self._reader.start()
        threading.Thread(target=self._wait, name=f"child-{self._process.pid}", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, message: Mapping[str, object]) -> None:
        with suppress(OSError):  # the receiver notices the end of a dead child
            self.channel.send(message)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal to the child and all its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def kill_if_alive(self) -> None:
        if self.is_alive:
            self.kill()

    def await_lines(self, seconds: float) -> None:
        """Wait for the last lines of an ended process. A child of its own may keep the output open."""
        if self._reader is not None:
            self._reader.join(seconds)

    def cause_of_end(self, seconds: float = KILL_SECONDS) -> str:
        """Wait for the end, and return its cause in words. A process that does not end in time is killed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill_if_alive()
        status = self._process.wait()
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def _wait(self) -> None:
        """Wait for the end of the child, then kill its children: they may hold the connection open."""
        self._process.wait()
        self.kill()
        self.channel.end()


def _read(output: IO[bytes], on_line: Callable[[str], None]) -> None:
    """Pass the lines on. A process that prints faster than its lines are taken waits."""
    with output:
        for line in iter(lambda: output.readline(LONGEST_LINE), b""):
            on_line(line.decode(errors="replace").rstrip())
