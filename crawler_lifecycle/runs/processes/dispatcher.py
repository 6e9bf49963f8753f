"""Dispatcher: a loop that claims queued tasks and asks the scheduler service to deploy these tasks.

The tasks are child tasks, main tasks at a further attempt, and main tasks of runs that waited for their permit.

A claim expires on its own, so another dispatcher claims a dead dispatcher's tasks. If such a task already has a job,
the service answers with the existing job: the request's key is the same.

The dispatcher's process also serves metrics from the database: `LineMetrics` for runs queued for a permit and paused
scopes, `RunMetrics` for open runs, looks and pending exports.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle import logs
from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.http.health import Pulses
from crawler_lifecycle.model.limits import LimitRecord
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED
from crawler_lifecycle.runs.activities.deployment import ClaimDeployer
from crawler_lifecycle.runs.ports import Claim, Claims, RunFigures

log = logging.getLogger(__name__)
REFRESH_SECONDS = 15.0  # the figures for metrics are read at most once in this time
NONE = RunFigures({}, None, None, None, 0, None, 0)  # before the first read
LONGEST_PAUSE = timedelta(seconds=5)  # between passes, after many failures in a row
PAUSE_FOR_A_PASS = 4  # so that idle passes take at most a fifth of the time


class LineMetrics(Collector):
    """Gauges from the limits at the time of the request; without an answer of the database there are no gauges."""

    def __init__(self, limits: Callable[[], Sequence[LimitRecord]]) -> None:
        self._limits = limits

    def describe(self) -> Iterable[Metric]:
        """Return the gauges without values, so that their registration does not wait for the database."""
        return _gauges_of_line(())

    def collect(self) -> Iterable[Metric]:
        try:
            return _gauges_of_line(self._limits())
        except LifecycleError as error:
            log.warning("no metrics of the line: %s", error.message)
            return ()


def _gauges_of_line(records: Sequence[LimitRecord]) -> list[Metric]:
    runs = GaugeMetricFamily("crawler_runs_in_line", "Runs that wait for their permit", labels=["cause"])
    runs.add_metric([PAUSED], sum(record.runs_held for record in records if record.paused_at))
    runs.add_metric([ADMISSION], sum(record.runs_held for record in records if not record.paused_at))
    paused = GaugeMetricFamily("crawler_paused_scopes", "Paused scopes: installation, crawlers and labels")
    paused.add_metric([], sum(record.paused_at is not None for record in records))
    return [runs, paused]


class RunMetrics(Collector):
    """Gauges from the latest figures. While the database does not answer, there are no gauges."""

    def __init__(self, figures: Callable[[], RunFigures]) -> None:
        self._read, self._figures, self._read_at = figures, NONE, -REFRESH_SECONDS
        self._reading = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return the gauges without values, so that their registration does not wait for the database."""
        return _gauges_of_runs(NONE)

    def collect(self) -> Iterable[Metric]:
        try:
            with self._reading:  # two scrapes at once cost one read
                if time.monotonic() - self._read_at >= REFRESH_SECONDS:
                    self._figures, self._read_at = self._read(), time.monotonic()
                return _gauges_of_runs(self._figures)
        except LifecycleError as error:
            log.warning("no metrics of runs: %s", error.message)
            return ()


def _gauges_of_runs(figures: RunFigures) -> list[Metric]:
    open_runs = GaugeMetricFamily("crawler_runs_open", "Open runs, by status", labels=["status"])
    for status, count in figures.open.items():
        open_runs.add_metric([status], count)
    pending = "crawler_exports_pending"
    return [
        open_runs,
        _age(
            "crawler_oldest_in_line_seconds", "Age of the oldest run in line that is not paused", figures.queued_since
        ),
        _age("crawler_oldest_look_seconds", "Time since the oldest last look at an open run", figures.looked_at),
        _age("crawler_look_delay_seconds", "Time by which the latest look is overdue", figures.look_due_at),
        GaugeMetricFamily(pending, "Ended runs with a pending event or archive", value=figures.pending_exports),
        _age(f"{pending}_seconds", "Age of the oldest pending event or archive", figures.export_pending_since),
        GaugeMetricFamily(
            "crawler_exports_failed", "Ended runs whose event or archive gave up", value=figures.failed_exports
        ),
    ]


def _age(name: str, documentation: str, since: datetime | None) -> Metric:
    """Return a gauge with the seconds since then; 0 without a time, and for a time in the future."""
    seconds = 0.0 if since is None else max(0.0, (datetime.now(UTC) - since).total_seconds())
    return GaugeMetricFamily(name, documentation, value=seconds)


@dataclass
class Dispatcher:
    claims: Claims
    claim_deployer: ClaimDeployer
    claim_duration: timedelta
    threads: int  # number of the pool's threads
    pool: ThreadPoolExecutor
    # marks our claims: the next pass may take back a claim whose request failed
    token: str = field(default_factory=lambda: f"dispatcher:{uuid4()}")
    pulses: Pulses = field(default_factory=Pulses)

    def run(self, stopped: threading.Event, interval: timedelta) -> None:
        """Make passes until the event is set. A pass that deployed a task is followed by the next pass at once.

        After an idle pass the pause is the interval, and after failures in a row the pause grows. The pause is also
        PAUSE_FOR_A_PASS times as long as the pass, which may examine thousands of runs in the line.
        """
        failures, backoff = 0, Backoff(interval, LONGEST_PAUSE)
        while not stopped.is_set():
            began = time.monotonic()
            try:
                deployed = self.dispatch()
                failures = 0
                self.pulses.passed()
            except LifecycleError as error:
                failures += 1
                self.pulses.failed(error)
                log.warning("nothing dispatched: %s", error.message)
                deployed = 0
            if not deployed:
                least = min(PAUSE_FOR_A_PASS * (time.monotonic() - began), LONGEST_PAUSE.total_seconds())
                stopped.wait(max(backoff.seconds(failures + 1), least))

    def dispatch(self) -> int:
        """Make one pass: deploy tasks as far as the limits allow, at most one for every thread. Return their number.

        A claim that waits for a thread could expire before its request. No request is under way now, so a claim with
        our token is left over from a failed request, and is taken again.
        """
        return self._deploy_all(self.claims.claim_tasks(self.token, self.claim_duration, self.threads))

    def _deploy_all(self, claims: Sequence[Claim]) -> int:
        """Deploy all claims at the same time, wait for all answers, and return the number of deployed tasks.

        A failed claim stops no other claim. If claims failed and no task was deployed, raise the first error, so that
        the pass counts as failed.
        """
        deployments = [self.pool.submit(self._deploy, claim) for claim in claims]
        wait(deployments)
        deployed, errors = 0, list[LifecycleError]()
        for claim, deployment in zip(claims, deployments, strict=True):
            try:
                deployed += deployment.result()
            except LifecycleError as error:
                errors.append(error)
                log.warning("task %s of run %s: %s", claim.task, claim.run_id, error.message)
        if errors and not deployed:
            raise errors[0]
        return deployed

    def _deploy(self, claim: Claim) -> bool:
        """Deploy one task. Return whether the task has a job now; otherwise the log has the cause."""
        with logs.about(run_id=claim.run_id, task=claim.task, attempt=claim.request.attempt):
            outcome = self.claim_deployer.deploy(claim)
            if outcome.cause and not outcome.held:
                log.warning("%s: %s", outcome.cause, outcome.message)
            return outcome.job_id is not None
