"""How is an answer of the API server received? All of it, in time, and unpacked if it came packed.

The API server packs what is longer than 128 KiB for whoever offers it. A list repeats itself so much that unpacking it
is less work than receiving the rest would be, where each object is an HTTP chunk of its own.
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
LARGEST_ANSWER = 256 << 20  # unpacked; a thousandfold of the last piece may be added before it is noticed
CHUNK = 1 << 16


class TooLong(HTTPError):
    """An answer that would not fit this process's memory."""


def whole(answer: urllib3.HTTPResponse, until: float = math.inf) -> bytes:
    """The time-out of the connection is for each piece; this bounds them all together."""
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
    """The pieces of what is not packed."""
    if (encoding := _encoding(answer)) != PLAIN:
        raise DecodeError(f"its answer is packed as {encoding!r}, which nobody offered")
    return _pieces(answer)


def _encoding(answer: urllib3.HTTPResponse) -> str:
    return answer.headers.get("Content-Encoding", PLAIN).strip().lower()


def _pieces(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    while piece := answer.read1(CHUNK, decode_content=False):
        yield piece


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """One for each piece, however little there is in it, so that nobody waits for more than that."""
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
