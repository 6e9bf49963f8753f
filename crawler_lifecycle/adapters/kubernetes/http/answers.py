"""Interpret the API server's answers: refusals become errors, and list pages tell the next page's token."""

from contextlib import suppress

import msgspec
import urllib3

from crawler_lifecycle.adapters.kubernetes.http.connection import NOT_REACHED
from crawler_lifecycle.adapters.kubernetes.http.receiving import whole
from crawler_lifecycle.errors import NotFound, TemporaryError

LONGEST_HEAD, ITEMS = 1 << 12, b',"items":['  # starts a list's items; JSON strings escape such quotes


class Missing(NotFound):
    """The API server knows no object with the requested name."""


class ApiFailed(TemporaryError):
    """A request failed for any reason but a missing object.

    `status` is None without an answer; `timed_out` is true if the request waited for its answer in vain.
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
    """The API server's refusal has these fields in its body."""

    kind: str | None = None
    message: str | None = None
    reason: str | None = None


class _ListMeta(msgspec.Struct, frozen=True, rename={"next": "continue"}):
    next: str | None = None


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta | None = None


def refusal(method: str, path: str, answer: urllib3.HTTPResponse) -> ApiFailed:
    try:
        body = whole(answer)
    except NOT_REACHED:
        body = b""
    finally:
        answer.close()
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        status = Status()
    message = status.message or body[:200].decode(errors="replace").strip() or answer.reason or ""
    return ApiFailed(
        f"the Kubernetes API answers {answer.status} to {method} {path}: {message}",
        answer.status,
        (status.reason or "") if status.kind == "Status" else "",
        _seconds(answer.headers.get("Retry-After")),
    )


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None  # a date: the API server never sends dates


def continuation(page: bytes) -> str | None:
    """Return the token for the next page, or None after the last page.

    The token stands before the items, and the items are megabytes long, so only the page's head is decoded. A page with
    an unusual head is decoded whole.
    """
    head, items, _ = page[:LONGEST_HEAD].partition(ITEMS)
    if items:
        with suppress(msgspec.MsgspecError):
            if metadata := msgspec.json.decode(head + b"}", type=_List).metadata:
                return metadata.next
    try:
        metadata = msgspec.json.decode(page, type=_List).metadata
    except msgspec.MsgspecError as error:
        raise ApiFailed(f"the Kubernetes API answers with something that is no list: {error}") from error
    return metadata.next if metadata else None
