"""Metrics common to all processes, and gauges from figures in the database.

Labels have few values: no metric names a run, a crawler or an address.
"""

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from crawler_lifecycle.errors import LifecycleError

T = TypeVar("T")
log = logging.getLogger(__name__)

SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30)  # buckets for statements and requests
LONG_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)  # buckets for starts and stops

STATEMENT_SECONDS = Histogram(
    "crawler_database_statement_seconds", "Time of a statement, also of a failed one", ["kind"], buckets=SECONDS
)
CONTENDED = Counter(
    "crawler_database_contended",
    "Transactions that gave way to another: `repeated`, or `given_up` after the last try",
    ["outcome"],
)
DISCONNECTS = Counter("crawler_database_disconnects", "Statements that lost their connection to the database")
CONNECTIONS = Gauge("crawler_database_connections", "Connections to the database that are in use")
CONNECTION_LIMIT = Gauge("crawler_database_connection_limit", "Largest number of connections to the database")
CLUSTER_SECONDS = Histogram(
    "crawler_kubernetes_request_seconds", "Time until the API server's answer began", ["method"], buckets=SECONDS
)
CLUSTER_ANSWERS = Counter(
    "crawler_kubernetes_answers", "Answers by the API server, by status; `none`: no answer", ["method", "status"]
)
WATCH_FAILURES = Counter("crawler_kubernetes_watch_failures", "Streams of changes that failed and began again")
RUNS_ENDED = Counter("crawler_runs_ended", "Ends of runs", ["status", "reason"])
START_SECONDS = Histogram(
    "crawler_run_start_seconds", "From the request for a run, or its reopening, to its start", buckets=LONG_SECONDS
)
STOP_SECONDS = Histogram(
    "crawler_run_stop_seconds", "From the first stop request to the end with proof", buckets=LONG_SECONDS
)
NOTICES = Counter(
    "crawler_notices",
    "Tries to send a notice: `sent` to all receivers, `refused` for good, or `failed` and tried again",
    ["outcome"],
)
REFUSED_CALLERS = Counter(
    "http_refused_callers",
    "Requests that an HTTP service refused by status: 401 for an unknown token, 429 for too many",
    ["status"],
)
DISK_FREE = Gauge("crawler_disk_free_bytes", "Free bytes on the disk with the folder, at the last check", ["folder"])
BUILD = Gauge("crawler_build_info", "1; the label names the program's version", ["version"])


def show_build() -> None:
    """Set the metric with the version, and show counters before their first event; called at a process's start."""
    BUILD.labels(version("crawler-lifecycle")).set(1)
    for outcome in ("repeated", "given_up"):  # Prometheus counts no increase at a counter's first sample
        CONTENDED.labels(outcome)
    for outcome in ("sent", "refused", "failed"):
        NOTICES.labels(outcome)


class FigureGauges(Collector, Generic[T]):
    """Gauges from figures, read at every request; without the database's answer there are no gauges."""

    def __init__(self, subject: str, read: Callable[[], T], gauges: Callable[[T], list[Metric]], none: T) -> None:
        self._subject, self._read, self._gauges, self._none = subject, read, gauges, none

    def describe(self) -> Iterable[Metric]:
        """Return the gauges without values: their registration must not wait for the database."""
        return self._gauges(self._none)

    def collect(self) -> Iterable[Metric]:
        try:
            return self._gauges(self._read())
        except LifecycleError as error:
            log.warning("no metrics of %s: %s", self._subject, error.message)
            return ()
