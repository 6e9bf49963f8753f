"""HTTP connections with time limits for all bytes awaited from a client.

uvicorn itself limits only the pause between two requests. A request head or body without an end, or an answer never
read by the client, would hold a connection forever, and for a live stream also one of the limited slots.
"""

import asyncio
import fcntl
import sys
import termios
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

CLIENT_HAS_TO_SEND = (h11.IDLE, h11.SEND_BODY)  # the client has to send the head, or the body


class TimeLimitedProtocol(H11Protocol):
    """Abort a connection if its client sends no head, sends no body, or does not read for `client_seconds`.

    The limit counts for the whole head and the whole body, so that slow single bytes do not prolong the time. Reading a
    long answer may take any time, provided that the client reads a part in each period.
    """

    client_seconds = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        # without this limit, `pause_writing` would not be called for a short answer that the client does not read
        transport.set_write_buffer_limits(high=0)
        self.app_state = {**self.app_state, "abort": transport.abort}  # for a stream whose token is revoked
        # the client's state and the request for which `_limit_sending` was called last
        self._sending_state: tuple[object, object] | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._limit_sending()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_sending()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit_sending()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._read_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _cancel(self._send_timer)
        _cancel(self._read_timer)

    def _limit_sending(self) -> None:
        """Start the time anew for every head and every body, and end the time when the client has sent everything.

        A piece of a head or body changes neither state nor request, and leaves the time as it is.
        """
        sending_state = (self.conn.their_state, self.cycle)
        if sending_state != self._sending_state:
            _cancel(self._send_timer)
            self._sending_state = sending_state
            if self.conn.their_state in CLIENT_HAS_TO_SEND:
                self._send_timer = self.loop.call_later(self.client_seconds, self.transport.abort)

    def _limit_reading(self) -> None:
        """Start the time limit for the client's next read."""
        self._read_timer = self.loop.call_later(self.client_seconds, self._abort_without_progress, self._count_unread())

    def _abort_without_progress(self, unread_before: int) -> None:
        if self._count_unread() < unread_before:
            self._limit_reading()
        else:
            self.transport.abort()

    def _count_unread(self) -> int:
        """Return how many bytes the client has still to read, in our buffer and the kernel's.

        A slow client may empty the kernel's buffer for long, while our buffer stays the same.
        """
        queued = bytearray(4)
        with suppress(OSError):  # without the system call, only our buffer counts
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, queued)
        return self.transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)


def server_config(app: FastAPI, **options: Any) -> uvicorn.Config:
    """Return the configuration for uvicorn: this protocol, and no websockets, since upgrades would bypass limits."""
    class_attributes = {"client_seconds": app.state.api.settings.client_seconds}
    protocol = type("Protocol", (TimeLimitedProtocol,), class_attributes)  # uvicorn takes a class, not an object
    return uvicorn.Config(app, http=protocol, ws="none", log_config=None, access_log=False, **options)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
