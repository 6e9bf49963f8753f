"""Which runs have jobs that changed? One stream of the Jobs of the installation, for all of its runs.

The stream may end, be silent or be cut off at any time: it is taken up again where it was, or, where that is too long
ago, from the beginning, which tells every run once. Whatever is missed all the same is found by the looks.
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

LONGEST_SILENCE = 1.0  # of ours: an empty set says that nothing happened
COLLECT = 0.05
STREAM_SECONDS = 30  # the API server ends the stream by itself; only half-open connections are silent for longer
SILENCE_SECONDS = 40.0
PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=15))
TOO_OLD = 410
LONGEST_VERSION = 40  # digits: longer ones are nonsense, and Python refuses to read them
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
    """The run_uids of which something changed, or an empty set after a second of silence. For ever.

    TemporaryError as long as the stream does not go well; it is tried again meanwhile."""

    def __init__(self, api: Api, installation: str | None) -> None:
        self._begin = partial(_Stream, api, installation)
        self._stream = self._begin()
        self._stream.start()

    def __next__(self) -> set[str]:
        if not self._stream.is_alive():  # a bug ended it, and is in the log
            self._stream = self._begin()
            self._stream.start()
        return self._stream.take()

    def __del__(self) -> None:
        """Nobody listens any more."""
        self._stream.stop()


class _Stream(threading.Thread):
    """Reads the stream, since whoever waits for a line cannot do anything else."""

    def __init__(self, api: Api, installation: str | None) -> None:
        super().__init__(name="kubernetes-watch", daemon=True)
        self._api = api
        self._selector = selector(installation)
        self._version: str | None = None  # the last we saw; None: from the beginning
        self._changed: set[str] = set()
        self._trouble: str | None = None  # until a stream has begun
        self._lock = threading.Lock()
        self._told = threading.Event()
        self._stopped = threading.Event()

    def take(self) -> set[str]:
        if self._told.wait(LONGEST_SILENCE):
            self._stopped.wait(COLLECT)  # changes come in bunches
        with self._lock:
            changed, self._changed = self._changed, set()
            self._told.clear()
        if not changed and self._trouble:
            raise TemporaryError(f"jobs are not watched: {self._trouble}")
        return changed

    def stop(self) -> None:
        """It ends with the next line, or when the API server ends the stream."""
        self._stopped.set()

    def run(self) -> None:
        failures = 0  # since the stream last went on
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
            self._stopped.wait(
                PAUSES.seconds(failures + 1)
            )  # also against somebody in between who ends every stream at once

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
        else:  # the beginning, or an API server restored from a backup, silent until it caught up with what we saw
            self._version = now
        for line in self._api.lines(self._api.batch("jobs"), query, accept=METADATA, silence=SILENCE_SECONDS):
            if self._stopped.is_set():
                return
            if line:
                self._read(line)
            self._trouble = None

    def _now(self) -> str:
        page = next(self._api.pages(self._api.batch("jobs"), {"limit": 1}, accept=METADATA_LIST))
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
        # what was there before the stream began comes in any order
        self._version = max(self._version or "", metadata.resource_version or "", key=_order)
        if metadata.labels and metadata.labels.run_uid:
            with self._lock:
                self._changed.add(metadata.labels.run_uid)
                self._told.set()


def _order(version: str) -> int:
    """Versions are numbers that grow; one that is none is older than all others."""
    return int(version) if version.isdecimal() and len(version) <= LONGEST_VERSION else -1
