"""Follow changes: one stream of the installation's Jobs names the runs whose jobs have changed (nudges).

The API server numbers all changes: an object's version (`resourceVersion`) is the number of its last change. The stream
may end, be silent or be cut off at any time; a new stream continues after the last version in the stream. Without a
usable version the new stream begins with every existing Job, and so names every run once. Looks find all changes that
the stream misses.
"""

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import msgspec

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import NOT_DECODABLE
from crawler_lifecycle.clusters.kubernetes.naming import METADATA, METADATA_LIST, selector
from crawler_lifecycle.clusters.kubernetes.objects import Named
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.metrics import WATCH_FAILURES

LONGEST_WAIT = 1.0  # seconds; after this time without a change the caller gets an empty set
COLLECT_SECONDS = 0.05  # wait for further changes after the first, since changes come in bunches
STREAM_SECONDS = 30  # the API server ends the stream after this time, so only a dead connection is silent for longer
SILENCE_SECONDS = 40.0  # a stream silent for this long has a dead connection, and is cut off
PAUSES = Backoff(timedelta(seconds=1), timedelta(seconds=15))  # between two streams
TOO_OLD = 410  # status of the answer if the API server has forgotten the changes since the version
LONGEST_VERSION = 40  # digits; longer versions are nonsense, and Python refuses to parse thousands of digits
logger = logging.getLogger(__name__)


class JobChange(msgspec.Struct, frozen=True):
    """A line of the stream."""

    type: str  # ADDED, MODIFIED, DELETED; BOOKMARK: a version without a change; ERROR: the stream failed
    object: msgspec.Raw


class StreamError(msgspec.Struct, frozen=True):
    """Object in a line with the type ERROR."""

    code: int | None = None
    message: str | None = None


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class JobList(msgspec.Struct, frozen=True):
    metadata: ListMetadata


# made at the import, as in `answers`
CHANGE, ERROR = msgspec.json.Decoder(JobChange), msgspec.json.Decoder(StreamError)
LIST, NAMED = msgspec.json.Decoder(JobList), msgspec.json.Decoder(Named)


class Changes(Iterator[set[str]]):
    """Endless iterator over sets of the changed runs' run_uids; an empty set after a second without changes.

    Raises TemporaryError while the stream fails; its thread retries in the meantime.
    """

    def __init__(self, api: KubernetesApi, installation: str | None) -> None:
        self._new_stream = partial(_Stream, api, installation)
        self._stream = self._new_stream()
        self._stream.start()

    def __next__(self) -> set[str]:
        if not self._stream.is_alive():  # an unexpected error has ended the thread, and is in the log
            self._stream = self._new_stream()
            self._stream.start()
        return self._stream.take_changed_runs()

    def __del__(self) -> None:
        """Stop the thread when its only reader is dropped."""
        self._stream.stop()


class _Stream(threading.Thread):
    """Thread that reads the stream and collects changed runs, since reading blocks until the next line arrives."""

    def __init__(self, api: KubernetesApi, installation: str | None) -> None:
        super().__init__(name="kubernetes-watch", daemon=True)
        self._api = api
        self._selector = selector(installation)
        self._version: str | None = None  # last version in the stream; None: the next stream begins with every Job
        self._changed: set[str] = set()  # run_uids since the caller's last call
        self._problem: str | None = None  # why the last stream failed; None when a new stream has begun
        self._lock = threading.Lock()
        self._has_changes = threading.Event()
        self._stopped = threading.Event()

    def take_changed_runs(self) -> set[str]:
        """Return the runs changed since the last call, after a wait of at most LONGEST_WAIT for the first.

        Raise TemporaryError if no run changed and the stream fails.
        """
        if self._has_changes.wait(LONGEST_WAIT):
            self._stopped.wait(COLLECT_SECONDS)
        with self._lock:
            changed, self._changed = self._changed, set()
            self._has_changes.clear()
        if not changed and self._problem:
            raise TemporaryError(f"jobs are not watched: {self._problem}")
        return changed

    def stop(self) -> None:
        """Ask the thread to end: with the next line, or when the API server ends the stream."""
        self._stopped.set()

    def run(self) -> None:
        failures = 0  # streams that failed in a row, without a new version in between
        while not self._stopped.is_set():
            version_before = self._version
            try:
                self._follow()
                failures = 0
            except LifecycleError as error:
                if isinstance(error, ApiFailed) and error.status == TOO_OLD:
                    self._version = None
                self._problem = error.message
                WATCH_FAILURES.inc()
                logger.warning("jobs are not watched: %s", error.message)
                # with another version the stream has worked, or begins anew: the pause need not grow
                failures = failures + 1 if self._version == version_before else 0
            # the thread pauses after a success too: a proxy that ends every stream at once would cause endless requests
            self._stopped.wait(PAUSES.seconds(failures + 1))

    def _follow(self) -> None:
        """Read one stream to its end. Raise ApiFailed if the stream cannot begin or breaks off."""
        query: dict[str, str | int] = {
            "watch": 1,
            "labelSelector": self._selector,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": STREAM_SECONDS,
        }
        present_version = self._present_version()
        if self._version and _version_number(self._version) <= _version_number(present_version):
            query["resourceVersion"] = self._version
        else:
            # Begin with every Job. Our version is ahead of the present version if the API server was restored from a
            # backup: a stream from our version would be silent until the server's versions reach our version.
            self._version = present_version
        for line in self._api.lines(self._api.jobs_path(), query, accept=METADATA, silence=SILENCE_SECONDS):
            if self._stopped.is_set():
                return
            if line:  # the first line is empty: it reports that the stream has begun
                self._read(line)
            self._problem = None

    def _present_version(self) -> str:
        page = next(self._api.pages(self._api.jobs_path(), {"limit": 1}, accept=METADATA_LIST))
        try:
            return LIST.decode(page).metadata.resource_version
        except NOT_DECODABLE as error:
            raise ApiFailed(f"the API server's answer is no list of jobs: {error}") from error

    def _read(self, line: bytes) -> None:
        """Note the line's version and the run of its Job. Raise ApiFailed for an error or an unreadable line."""
        try:
            change = CHANGE.decode(line)
            if change.type == "ERROR":
                failure = ERROR.decode(change.object)
                raise ApiFailed(f"the stream of jobs ended: {failure.message}", failure.code)
            metadata = NAMED.decode(change.object).metadata
        except NOT_DECODABLE as error:
            raise ApiFailed(f"the stream of jobs cannot be read: {error}") from error
        # the highest version counts: a stream that begins with every Job shows their versions in any order
        self._version = max(self._version or "", metadata.resource_version or "", key=_version_number)
        if metadata.labels and metadata.labels.run_uid:
            with self._lock:
                self._changed.add(metadata.labels.run_uid)
                self._has_changes.set()


def _version_number(version: str) -> int:
    """Return the version as a number; -1, lower than every version, if the text is no number."""
    return int(version) if version.isdecimal() and len(version) <= LONGEST_VERSION else -1
