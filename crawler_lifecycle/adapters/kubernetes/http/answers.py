"""Why does the API server say no, and does a list go on?"""

from contextlib import suppress

import msgspec
import urllib3

from crawler_lifecycle.adapters.kubernetes.http.connection import NOT_REACHED
from crawler_lifecycle.adapters.kubernetes.http.receiving import whole
from crawler_lifecycle.errors import NotFound, TemporaryError

LONGEST_HEAD, ITEMS = 1 << 12, b',"items":['  # of a list; in a string the quotes would be escaped


class Missing(NotFound):
    """There is nothing of that name, says the API server itself."""


class ApiFailed(TemporaryError):
    """Anything else that went wrong; `status` is None if there was no answer, `timed_out` if it was waited for."""

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
    """What the API server says when it says no."""

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
        told = msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        told = Status()
    message = told.message or body[:200].decode(errors="replace").strip() or answer.reason or ""
    return ApiFailed(
        f"the Kubernetes API answers {answer.status} to {method} {path}: {message}",
        answer.status,
        (told.reason or "") if told.kind == "Status" else "",
        _seconds(answer.headers.get("Retry-After")),
    )


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None  # a date: the API server never sends one


def continuation(page: bytes) -> str | None:
    """It stands before the items, of which there are megabytes. If it does not, all is read."""
    head, items, _ = page[:LONGEST_HEAD].partition(ITEMS)
    if items:
        with suppress(msgspec.MsgspecError):
            if told := msgspec.json.decode(head + b"}", type=_List).metadata:
                return told.next
    try:
        told = msgspec.json.decode(page, type=_List).metadata
    except msgspec.MsgspecError as error:
        raise ApiFailed(f"the Kubernetes API answers with something that is no list: {error}") from error
    return told.next if told else None
