"""Receive the API server's answers complete, in time and decompressed, and interpret them.

Refusals become errors, and list pages carry the next page's token.

The API server compresses answers above 128 KiB if the client offers gzip. Lists are so repetitive that
decompressing takes less work than receiving the list uncompressed, with every object in its own HTTP chunk.
"""

import math
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import urllib3
from urllib3.exceptions import DecodeError, HTTPError

from crawler_lifecycle.clusters.kubernetes.http.connection import NOT_REACHED
from crawler_lifecycle.errors import NotFound, TemporaryError

GZIP, PLAIN = "gzip", "identity"
GZIP_NAMES = (GZIP, "x-gzip")
GZIP_FORMAT = zlib.MAX_WBITS | 16  # makes zlib expect gzip's header and checksum
LONGEST_ANSWER_SECONDS = 60.0
# An answer with more decompressed bytes is given up. The size is checked after every piece, and a piece may decompress
# to 1,000 times CHUNK.
LARGEST_ANSWER = 256 << 20
CHUNK = 1 << 16  # most bytes in a piece


class TooLong(HTTPError):
    """The answer is too large for the process's memory."""


def read_whole(answer: urllib3.HTTPResponse, until: float = math.inf) -> bytes:
    """Return the whole body, decompressed. Raise TooLong for more than LARGEST_ANSWER, HTTPError after the deadline.

    The connection's time-out bounds the wait for a single piece; the deadline, `until` or LONGEST_ANSWER_SECONDS from
    now, bounds all pieces together.
    """
    deadline, received, size = min(until, time.monotonic() + LONGEST_ANSWER_SECONDS), [], 0
    is_compressed = _encoding(answer) in GZIP_NAMES
    for piece in _decompressed(_pieces(answer)) if is_compressed else uncompressed_pieces(answer):
        received.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise TooLong("its answer is too long")
        if time.monotonic() > deadline:
            raise HTTPError("its answer does not end")
    return b"".join(received)


def uncompressed_pieces(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    """Return the pieces of an uncompressed answer as they arrive. Raise DecodeError for a compressed answer."""
    if (encoding := _encoding(answer)) != PLAIN:
        raise DecodeError(f"its answer is packed as {encoding!r}, which nobody offered")
    return _pieces(answer)


def _encoding(answer: urllib3.HTTPResponse) -> str:
    return answer.headers.get("Content-Encoding", PLAIN).strip().lower()


def _pieces(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    while piece := answer.read1(CHUNK, decode_content=False):
        yield piece


def _decompressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a decompressed piece for every received piece, even an empty piece: the caller then checks its deadline.

    Raise DecodeError for bytes that are not gzip, for bytes after the gzip stream, and for a stream without its end.
    """
    decompressor = zlib.decompressobj(GZIP_FORMAT)
    try:
        for piece in pieces:
            yield decompressor.decompress(piece)
            if decompressor.unused_data:
                raise DecodeError("its answer continues after the end of the compressed data")
    except zlib.error as error:
        raise DecodeError(f"its answer cannot be unpacked: {error}") from error
    if not decompressor.eof:
        raise DecodeError("its answer cannot be unpacked: its end is missing")


LONGEST_HEAD = 1 << 12  # a list whose items begin after more bytes than this is decoded whole
BEGIN_OF_ITEMS = b',"items":['  # no text in the head equals these bytes, since JSON strings escape quotes


class Missing(NotFound):
    """The API server knows no object with the requested name."""


class ApiFailed(TemporaryError):
    """A request failed for any reason but a missing object.

    `status` is None without an answer. `reason` is the API server's word for the refusal, such as Forbidden.
    `retry_after` is the number of seconds that the server asks us to wait. `timed_out` is true if the request waited
    for its answer in vain, or had no time left.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        reason: str = "",
        retry_after: float | None = None,
        *,
        timed_out: bool = False,
    ) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class Status(msgspec.Struct, frozen=True):
    """Body of a refusal by the API server."""

    kind: str | None = None
    message: str | None = None
    reason: str | None = None


class _ListMeta(msgspec.Struct, frozen=True, rename={"next": "continue"}):
    next: str | None = None


class _PagedList(msgspec.Struct, frozen=True):
    metadata: _ListMeta | None = None


# made at the import: two threads that are the first to use a type at the same moment crash the process
STATUS, PAGED_LIST = msgspec.json.Decoder(Status), msgspec.json.Decoder(_PagedList)


def refusal(method: str, path: str, answer: urllib3.HTTPResponse) -> ApiFailed:
    """Return the error for an answer with an error status, and close the answer.

    A body that cannot be received or decoded costs only the server's message and reason.
    """
    try:
        body = read_whole(answer)
    except NOT_REACHED:
        body = b""
    finally:
        answer.close()
    try:
        status = STATUS.decode(body)
    except msgspec.MsgspecError:
        status = Status()
    message = status.message or body[:200].decode(errors="replace").strip() or answer.reason or ""
    return ApiFailed(
        f"the Kubernetes API answers {answer.status} to {method} {path}: {message}",
        answer.status,
        (status.reason or "") if status.kind == "Status" else "",
        _seconds_to_wait(answer.headers.get("Retry-After")),
    )


def _seconds_to_wait(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None  # a date: the API server never sends dates


def continuation(page: bytes) -> str | None:
    """Return the token for the next page, or None after the last page.

    The token precedes the items, and the items are megabytes long, so only the page's head is decoded. A page with
    an unusual head is decoded whole.
    """
    head, items, _ = page[:LONGEST_HEAD].partition(BEGIN_OF_ITEMS)
    if items:
        with suppress(msgspec.MsgspecError):
            if metadata := PAGED_LIST.decode(head + b"}").metadata:
                return metadata.next
    try:
        metadata = PAGED_LIST.decode(page).metadata
    except msgspec.MsgspecError as error:
        raise ApiFailed(f"the Kubernetes API answers with something that is no list: {error}") from error
    return metadata.next if metadata else None
