"""Serve a process's health (liveness, readiness and metrics) on a port of its own, and watch its disks.

A process is alive while its loop turns. A failed pass counts as a turn, since a restart mends no outage of other
services. A process is ready while all its needs, such as database and Temporal, have answered lately.

`/readyz` and the health ports need no token. Strangers are shown only the part and one word, such as `database:
unavailable`. Addresses, accounts, paths and the words of other servers stay in the log.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from crawler_lifecycle.base.disk import check_room
from crawler_lifecycle.errors import LifecycleError, NotReady, TemporaryError
from crawler_lifecycle.settings.processes import HealthSettings

logger = logging.getLogger(__name__)
NO_ANSWER, FAILED, NOT_READY, UNAVAILABLE = "no_answer", "failed", "not_ready", "unavailable"
PAUSE = 15.0  # seconds between two checks of the disks
TRIES = 4  # a need is asked so often before its silence makes the process unready
CLIENT_SECONDS = 10.0  # time limit for a client to send its request
SLOW_SECONDS = 3.0  # for an answer from a need, such as the database or Temporal
Need = Callable[[], Awaitable[object]]  # asks a service that the process needs; raises an error without an answer


def cause_word(error: LifecycleError) -> str:
    """Return the error's own cause, or the word for its family."""
    if error.cause is not None:
        return error.cause
    if isinstance(error, NotReady):
        return NOT_READY
    return UNAVAILABLE if isinstance(error, TemporaryError) else FAILED


class PublicProblems:
    """Shortens errors for strangers. The log gets the whole message, but a part's repeated problem only once."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}  # last logged message by part; the part's last block raised an error

    @contextmanager
    def shortened(self, part: str) -> Iterator[None]:
        """Raise an error from the block again as a TemporaryError with the part's name and one word."""
        try:
            yield
        except LifecycleError as error:
            if self._logged.get(part) != error.message:
                logger.warning("not ready: %s: %s", part, error.message)
            self._logged[part] = error.message
            word = cause_word(error)
            raise TemporaryError(f"{part}: {word}", cause=error.cause) from error
        self._logged.pop(part, None)


@dataclass
class DiskWatch:
    """Watch the disks of a process: log a full disk, and log when there is room again."""

    folders: Sequence[Path]
    pause: float = PAUSE
    _problem: str | None = field(default=None, init=False)  # found by the last check

    @property
    def has_problem(self) -> bool:
        """Whether the last check found a full disk.

        The API and the scheduler service stay ready on a full disk, since reading and stops continue. The other
        processes are not ready then (`process.needs_of`).
        """
        return self._problem is not None

    async def run(self) -> None:
        """Check indefinitely. Only a new problem is logged: the log may be on the same disk."""
        while True:
            had_problem = self.has_problem
            self._problem = await asyncio.to_thread(self._find_problem)
            if self._problem is not None and not had_problem:
                logger.error("%s", self._problem)
            elif self._problem is None and had_problem:
                logger.info("the disk can be written to again")
            await asyncio.sleep(self.pause)

    def _find_problem(self) -> str | None:
        try:
            check_room(self.folders)
        except NotReady as error:
            return error.message
        return None


@dataclass
class Pulse:
    """The last time when a loop or a need worked. A single thread writes, the health server's threads read."""

    problem: str | None = None  # the last failure, until the next beat
    word: str = NO_ANSWER  # the last failure for strangers, who must not read addresses
    _last_beat: float | None = None
    _began_at: float = field(default_factory=time.monotonic)

    def beat(self) -> None:
        self.problem, self.word, self._last_beat = None, NO_ANSWER, time.monotonic()

    def fail(self, problem: str, word: str = FAILED) -> None:
        self.problem, self.word = problem, word

    @property
    def age(self) -> float:
        """The seconds since the last beat, or since the start if there was no beat."""
        return time.monotonic() - (self._began_at if self._last_beat is None else self._last_beat)

    def has_beaten_within(self, seconds: float) -> bool:
        return self._last_beat is not None and self.age <= seconds


@dataclass
class Pulses:
    """The two pulses of a loop: every pass beats in `turned`, and a pass without a failure also in `succeeded`."""

    turned: Pulse = field(default_factory=Pulse)
    succeeded: Pulse = field(default_factory=Pulse)

    def passed(self) -> None:
        self.turned.beat()
        self.succeeded.beat()

    def failed(self, error: LifecycleError) -> None:
        self.turned.beat()
        self.succeeded.fail(error.message, cause_word(error))


@dataclass(frozen=True, eq=False)
class ProcessHealth(Collector):
    """The health of a process, for its health server."""

    limits: HealthSettings
    turned: Pulse  # of the loop
    answered: Mapping[str, Pulse]  # by need

    def liveness_problems(self) -> list[str]:
        """Return a line if the loop has stalled."""
        age = self.turned.age
        return [f"its loop has not turned for {age:.0f} s"] if age > self.limits.stuck_seconds else []

    def readiness_problems(self) -> list[str]:
        """Return a line for a stalled loop, and for every need without a recent answer."""
        problems = self.liveness_problems()
        for name, pulse in self.answered.items():
            if not pulse.has_beaten_within(self.limits.ready_seconds):
                problems.append(f"{name}: {pulse.word}")
        return problems

    def collect(self) -> Iterable[Metric]:
        ages = GaugeMetricFamily("process_pulse_age_seconds", "Since the loop or the need worked", labels=["of"])
        for name, pulse in {"loop": self.turned, **self.answered}.items():
            ages.add_metric([name], pulse.age)
        yield ages


class HealthServer(ThreadingHTTPServer):
    """Answers /healthz, /readyz and /metrics without a token: the answers contain no secret, address or account."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], health: ProcessHealth) -> None:
        self.health = health
        self.metrics = CollectorRegistry()
        self.metrics.register(health)
        super().__init__(address, _HealthRequest)


class _HealthRequest(BaseHTTPRequestHandler):
    server: HealthServer
    timeout = CLIENT_SECONDS

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                self._answer_status("alive", self.server.health.liveness_problems())
            case "/readyz":
                self._answer_status("ready", self.server.health.readiness_problems())
            case "/metrics":
                metrics = generate_latest(REGISTRY) + generate_latest(self.server.metrics)
                self._answer(200, CONTENT_TYPE_LATEST, metrics)
            case _:
                self._answer(404, "text/plain", b"/healthz, /readyz or /metrics\n")

    def _answer_status(self, status: str, problems: list[str]) -> None:
        answer = {"status": f"not {status}", "problems": problems} if problems else {"status": status}
        self._answer(503 if problems else 200, "application/json", json.dumps(answer).encode() + b"\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a probe comes every few seconds."""


@asynccontextmanager
async def served(
    limits: HealthSettings, needs: Mapping[str, Need], pulses: Pulses | None = None
) -> AsyncIterator[HealthServer | None]:
    """Serve the health during the block. Without a port in the settings, serve nothing and yield None.

    `pulses` belong to the process's own loop. Without `pulses` the process is alive while the event loop turns.
    """
    if limits.port is None:
        yield None
        return
    turned = pulses.turned if pulses else Pulse()
    answered = {name: Pulse() for name in needs}
    passes = {"passes": pulses.succeeded} if pulses else {}  # a loop is ready only after a pass without a failure
    health = ProcessHealth(limits, turned, passes | answered)
    tasks = [
        asyncio.create_task(_keep_asking(name, need, answered[name], limits.ready_seconds / TRIES))
        for name, need in needs.items()
    ]
    if pulses is None:
        tasks.append(asyncio.create_task(_keep_turning(turned, limits.stuck_seconds / TRIES)))
    try:
        with _open_server(limits, limits.port, health) as server:
            Thread(target=server.serve_forever, name="health", daemon=True).start()
            try:
                yield server
            finally:
                await asyncio.to_thread(server.shutdown)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _open_server(limits: HealthSettings, port: int, health: ProcessHealth) -> HealthServer:
    try:
        return HealthServer((limits.host, port), health)
    except OSError as error:
        raise NotReady(
            f"CRAWLER_HEALTH__PORT: cannot listen on {limits.host}:{port}: {error.strerror or error}"
        ) from error


async def _keep_asking(name: str, need: Need, answered: Pulse, pause: float) -> None:
    """Ask the need again and again. Log a new problem with its message, which `/readyz` does not show."""
    while True:
        began = time.monotonic()
        try:
            await need()
            answered.beat()
            if (seconds := time.monotonic() - began) > SLOW_SECONDS:
                logger.warning("slow: %s: an answer took %.1f s", name, seconds)
        except LifecycleError as error:
            if error.message != answered.problem:
                logger.warning("not ready: %s: %s", name, error.message)
            answered.fail(error.message, cause_word(error))
        except Exception as error:  # if this task ended, the process would stay unready forever
            logger.exception("not ready: %s", name)
            answered.fail(f"unexpected {type(error).__name__}; see the log for more")
        await asyncio.sleep(pause)


async def _keep_turning(turned: Pulse, pause: float) -> None:
    """Beat as long as the event loop turns."""
    while True:
        turned.beat()
        await asyncio.sleep(pause)
