"""Reception of the API server's answers: complete, in time, and decompressed.

The API server compresses answers above 128 KiB if the client offers gzip. Lists repeat themselves so much that
decompressing takes less work than receiving the uncompressed rest, where every object is an HTTP chunk by itself.
"""

import math
import time
import zlib
from collections.abc import Iterator

import urllib3
from urllib3.exceptions import DecodeError, HTTPError

GZIP, PLAIN = "gzip", "identity"
GZIP_NAMES = (GZIP, "x-gzip")
GZIP_WRAPPED = zlib.MAX_WBITS | 16
LONGEST_ANSWER_SECONDS = 60.0
LARGEST_ANSWER = 256 << 20  # decompressed bytes; the last piece may add its size a thousand times before the check
CHUNK = 1 << 16


class TooLong(HTTPError):
    """The answer is too large for the process's memory."""


def whole(answer: urllib3.HTTPResponse, until: float = math.inf) -> bytes:
    """Return the whole body.

    The connection's time-out bounds the wait for a single piece; the deadline bounds all pieces together.
    """
    deadline, received, size = min(until, time.monotonic() + LONGEST_ANSWER_SECONDS), [], 0
    is_packed = _encoding(answer) in GZIP_NAMES
    for piece in _unpacked(_pieces(answer)) if is_packed else as_they_come(answer):
        received.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise TooLong("its answer is too long")
        if time.monotonic() > deadline:
            raise HTTPError("its answer does not end")
    return b"".join(received)


def as_they_come(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    """Yield the pieces of an uncompressed answer."""
    if (encoding := _encoding(answer)) != PLAIN:
        raise DecodeError(f"its answer is packed as {encoding!r}, which nobody offered")
    return _pieces(answer)


def _encoding(answer: urllib3.HTTPResponse) -> str:
    return answer.headers.get("Content-Encoding", PLAIN).strip().lower()


def _pieces(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    while piece := answer.read1(CHUNK, decode_content=False):
        yield piece


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a decompressed piece for every received piece, even if empty, so that the caller's deadline is checked in
    time.
    """
    unpacking = zlib.decompressobj(GZIP_WRAPPED)
    try:
        for piece in pieces:
            yield unpacking.decompress(piece)
            if unpacking.unused_data:
                raise DecodeError("its answer goes on where what was packed has ended")
    except zlib.error as error:
        raise DecodeError(f"its answer cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise DecodeError("its answer cannot be unpacked: its end is missing")
