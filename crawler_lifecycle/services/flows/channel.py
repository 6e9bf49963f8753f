"""Channel between a host and an isolated process: messages as JSON with their lengths in front."""

import json
import socket
import struct
import threading
from contextlib import suppress
from typing import Any

LENGTH = struct.Struct(">I")


class Channel:
    """A socket of a pair. Several threads may send; a single thread receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. OSError if the receiver has ended."""
        content = json.dumps(message).encode()
        with self._sending:
            self._socket.sendall(LENGTH.pack(len(content)) + content)

    def receive(self) -> dict[str, Any] | None:
        """Wait for a message; None if the sender has ended."""
        head = self._exactly(LENGTH.size)
        content = None if head is None else self._exactly(LENGTH.unpack(head)[0])
        return None if content is None else json.loads(content)

    def close(self) -> None:
        """Break the connection, also for a receiving thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

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
