"""How is an answer of the API server received? All of it, in time, and unpacked if it came packed.

The API server packs what is longer than 128 KiB for whoever offers it. A list repeats itself so much that unpacking it
is less work than receiving the rest would be, where each object is an HTTP chunk of its own.
"""

import math
import time
import zlib

import urllib3

GZIP = "gzip"
LONGEST_ANSWER_SECONDS = 60.0
LARGEST_ANSWER = 256 << 20  # unpacked
CHUNK = 1 << 16
GZIP_WRAPPED = zlib.MAX_WBITS | 16


def whole(answer: urllib3.HTTPResponse, until: float = math.inf) -> bytes:
    """The time-out of the connection is for each piece; this bounds them all together."""
    deadline, pieces, received = min(until, time.monotonic() + LONGEST_ANSWER_SECONDS), [], 0
    while piece := answer.read1(CHUNK, decode_content=False):
        pieces.append(piece)
        received += len(piece)
        if received > LARGEST_ANSWER or time.monotonic() > deadline:
            raise urllib3.exceptions.HTTPError("its answer does not end")
    body = b"".join(pieces)
    return _unpacked(body) if answer.headers.get("Content-Encoding") == GZIP else body


def _unpacked(body: bytes) -> bytes:
    unpacking = zlib.decompressobj(GZIP_WRAPPED)
    try:
        unpacked = unpacking.decompress(body, LARGEST_ANSWER)
    except zlib.error as error:
        raise urllib3.exceptions.DecodeError(f"its answer cannot be unpacked: {error}") from error
    if unpacking.unconsumed_tail:
        raise urllib3.exceptions.HTTPError("its answer does not end")
    if not unpacking.eof:
        raise urllib3.exceptions.DecodeError("its answer cannot be unpacked: its end is missing")
    return unpacked
