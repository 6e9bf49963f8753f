"""Channel between a host and an isolated process: messages as JSON with their lengths in front."""

import json
import logging
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

logger = logging.getLogger(__name__)
LENGTH = struct.Struct(">I")
TIME = struct.Struct("@ll")  # seconds and microseconds, for the socket's option
LARGEST_MESSAGE = 256 * 1024 * 1024  # bytes; a greater length is no length, since authors may write to any descriptor


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
