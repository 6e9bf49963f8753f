"""Follow changes: one stream of the installation's Jobs tells the runs whose jobs have changed.

The stream may end, be silent or be cut off at any time. A new stream continues after the last version, the API server's
number for a change. Without a usable version the stream begins with every existing Job, and so names every run once.
Looks find all changes that the stream misses.
"""

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import msgspec

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import NOT_DECODABLE
from crawler_lifecycle.adapters.kubernetes.naming import METADATA, METADATA_LIST, selector
from crawler_lifecycle.adapters.kubernetes.objects import Named
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, TemporaryError

LONGEST_SILENCE = 1.0  # after this silence an empty set tells the caller about a stream without changes
COLLECT = 0.05  # seconds to wait for further changes after the first, since changes come in bunches
STREAM_SECONDS = 30  # the API server ends the stream after this time, so only a dead connection is silent for longer
SILENCE_SECONDS = 40.0  # a stream silent for this long is cut off
PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=15))
TOO_OLD = 410  # the status if the API server has forgotten the changes since the version
LONGEST_VERSION = 40  # digits: longer versions are nonsense, and Python refuses to parse them
logger = logging.getLogger(__name__)


class Change(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Trouble(msgspec.Struct, frozen=True):
    code: int | None = None
    message: str | None = None


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class Listed(msgspec.Struct, frozen=True):
    metadata: ListMetadata


class Changes(Iterator[set[str]]):
    """Endless iterator over sets of changed runs' run_uids; an empty set after a second without changes.

    Raises TemporaryError while the stream fails; a thread retries in the meantime.
    """

    def __init__(self, api: Api, installation: str | None) -> None:
        self._begin = partial(_Stream, api, installation)
        self._stream = self._begin()
        self._stream.start()

    def __next__(self) -> set[str]:
        if not self._stream.is_alive():  # an unexpected error has ended the thread, and is in the log
            self._stream = self._begin()
            self._stream.start()
        return self._stream.take()

    def __del__(self) -> None:
        """Stop the thread with its last reader."""
        self._stream.stop()


class _Stream(threading.Thread):
    """Thread that reads the stream, because a reader that waits for a line is blocked."""

    def __init__(self, api: Api, installation: str | None) -> None:
        super().__init__(name="kubernetes-watch", daemon=True)
        self._api = api
        self._selector = selector(installation)
        self._version: str | None = None  # last version in the stream; None: begin with every Job
        self._changed: set[str] = set()
        self._trouble: str | None = None  # why no stream has begun; None while a stream runs
        self._lock = threading.Lock()
        self._has_changes = threading.Event()
        self._stopped = threading.Event()

    def take(self) -> set[str]:
        if self._has_changes.wait(LONGEST_SILENCE):
            self._stopped.wait(COLLECT)
        with self._lock:
            changed, self._changed = self._changed, set()
            self._has_changes.clear()
        if not changed and self._trouble:
            raise TemporaryError(f"jobs are not watched: {self._trouble}")
        return changed

    def stop(self) -> None:
        """Ask the thread to end: with the next line, or when the API server ends the stream."""
        self._stopped.set()

    def run(self) -> None:
        failures = 0  # since the last progress of the stream
        while not self._stopped.is_set():
            before = self._version
            try:
                self._follow()
                failures = 0
            except LifecycleError as error:
                if isinstance(error, ApiFailed) and error.status == TOO_OLD:
                    self._version = None
                self._trouble = error.message
                logger.warning("jobs are not watched: %s", error.message)
                failures = failures + 1 if self._version == before else 0
            # a pause after success too: a proxy that ends every stream at once would cause endless requests
            self._stopped.wait(PAUSES.seconds(failures + 1))

    def _follow(self) -> None:
        query: dict[str, str | int] = {
            "watch": 1,
            "labelSelector": self._selector,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": STREAM_SECONDS,
        }
        now = self._now()
        if self._version and _order(self._version) <= _order(now):
            query["resourceVersion"] = self._version
        else:
            # Begin with every Job. Our version is ahead of `now` if the API server was restored from a backup: a stream
            # from our version would be silent until the server's versions reach our version.
            self._version = now
        for line in self._api.lines(self._api.jobs_path(), query, accept=METADATA, silence=SILENCE_SECONDS):
            if self._stopped.is_set():
                return
            if line:
                self._read(line)
            self._trouble = None

    def _now(self) -> str:
        page = next(self._api.pages(self._api.jobs_path(), {"limit": 1}, accept=METADATA_LIST))
        try:
            return msgspec.json.decode(page, type=Listed).metadata.resource_version
        except NOT_DECODABLE as error:
            raise ApiFailed(f"the API server's answer is no list of jobs: {error}") from error

    def _read(self, line: bytes) -> None:
        try:
            change = msgspec.json.decode(line, type=Change)
            if change.type == "ERROR":
                trouble = msgspec.json.decode(change.object, type=Trouble)
                raise ApiFailed(f"the stream of jobs ended: {trouble.message}", trouble.code)
            metadata = msgspec.json.decode(change.object, type=Named).metadata
        except NOT_DECODABLE as error:
            raise ApiFailed(f"the stream of jobs cannot be read: {error}") from error
        # while a stream shows every Job, older versions come in any order
        self._version = max(self._version or "", metadata.resource_version or "", key=_order)
        if metadata.labels and metadata.labels.run_uid:
            with self._lock:
                self._changed.add(metadata.labels.run_uid)
                self._has_changes.set()


def _order(version: str) -> int:
    """Return the version as a number that grows; -1, older than all others, if the version is no number."""
    return int(version) if version.isdecimal() and len(version) <= LONGEST_VERSION else -1
