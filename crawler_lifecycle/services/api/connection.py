"""HTTP connections with time limits for all bytes awaited from a client.

uvicorn itself limits only the pause between two requests. A request head or body without an end, or an answer never
read by the client, would hold a connection, and a stream's place, for ever.
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

SENDING = (h11.IDLE, h11.SEND_BODY)  # states in which the client has to send: a request's head, then its body


class TimeLimitedProtocol(H11Protocol):
    """Abort a connection whose client sends no head, sends no body, or reads nothing for `client_seconds`.

    The limit counts for the whole head and the whole body, so that slow single bytes do not prolong the time. Reading a
    long answer may take any time, provided that the client reads a part in each period.
    """

    client_seconds = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # otherwise a short unread answer would stay unnoticed
        self.app_state = {**self.app_state, "abort": transport.abort}  # for a stream whose token is revoked
        self._turn: tuple[object, object] | None = None  # the client's state and the request, to notice a change
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
        """Start the time anew for every head and every body, and not for their pieces."""
        turn = (self.conn.their_state, self.cycle)
        if turn != self._turn:
            _cancel(self._send_timer)
            self._turn = turn
            if self.conn.their_state in SENDING:
                self._send_timer = self.loop.call_later(self.client_seconds, self.transport.abort)

    def _limit_reading(self) -> None:
        self._read_timer = self.loop.call_later(self.client_seconds, self._abort_without_progress, self._unread())

    def _abort_without_progress(self, unread_before: int) -> None:
        if self._unread() < unread_before:
            self._limit_reading()
        else:
            self.transport.abort()

    def _unread(self) -> int:
        """Return how many bytes the client has still to read. The kernel's buffer counts, too: a slow client may read
        from there for long, while the bytes here stay the same.
        """
        queued = bytearray(4)
        with suppress(OSError):  # without this system call, only the bytes here are known
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, queued)
        return self.transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)


def server_config(app: FastAPI, **options: Any) -> uvicorn.Config:
    """Return the configuration for uvicorn: this protocol, and no websockets, since upgrades would bypass limits."""
    seconds = {"client_seconds": app.state.api.settings.client_seconds}
    protocol = type("Protocol", (TimeLimitedProtocol,), seconds)
    return uvicorn.Config(app, http=protocol, ws="none", log_config=None, access_log=False, **options)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
