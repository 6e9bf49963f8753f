"""Starts, restarts and ends a part of the embedded stack as a child process."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from crawler_lifecycle.control.stack_file import Process
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.services.embedded import processes
from crawler_lifecycle.services.embedded.plan import Part

PROBE_PAUSE = 0.1  # seconds
START_PATIENCE = 30.0  # seconds
RESTARTS = Backoff(timedelta(seconds=1), timedelta(seconds=30))
HEALTHY_SECONDS = 60.0  # a process that ran for longer is restarted after the shortest pause
LAST_LINES = 8  # shown from the log when a process does not start
BIG_LOG = 10_000_000  # bytes; a longer log becomes `.log.1` at the next start

Say = Callable[[str], None]
Probe = Callable[[], Awaitable[None]]


class Child:
    """A child process. `on_start` is called after every start, so that the stack records the process."""

    def __init__(
        self, part: Part, environment: dict[str, str], log: Path, say: Say, on_start: Callable[[], None]
    ) -> None:
        self.part = part
        self.log = log
        self.started_at = 0.0
        self.process: Process | None = None
        self._environment = {name: value for name, value in environment.items() if name not in part.without}
        self._say = say
        self._on_start = on_start
        self._running: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.part.name

    async def start(self, group: int) -> None:
        """Start the process in the reaper's group, so that the reaper finds the process however the stack ends."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > BIG_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.started_at = time.time()
        with self.log.open("ab") as output:
            self._running = await asyncio.create_subprocess_exec(
                *self.part.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                process_group=group,
            )
        self.process = processes.describe(self.name, self._running.pid)
        self._on_start()

    async def wait_ready(self, probe: Probe) -> None:
        """Wait until the probe succeeds. NotReady shows the end of the log: the process ended or took too long."""
        ended = asyncio.create_task(self._process.wait())
        deadline, problem = time.monotonic() + START_PATIENCE, "it does not answer"
        try:
            while time.monotonic() < deadline:
                try:
                    return await probe()
                except LifecycleError as error:
                    problem = error.message
                done, _ = await asyncio.wait([ended], timeout=PROBE_PAUSE)
                if done:
                    raise self._did_not_start(f"ended with status {ended.result()}")
            raise self._did_not_start(f"is not ready after {START_PATIENCE:.0f} s ({problem})")
        finally:
            ended.cancel()

    def refuse_ended(self) -> None:
        if self._process.returncode is not None:
            raise self._did_not_start(f"ended with status {self._process.returncode}")

    def keep_running(self, group: Callable[[], int]) -> None:
        """From now on, restart the process whenever the process ends, after a growing pause."""
        self._keeper = asyncio.create_task(self._restart_for_ever(group))

    async def stop(self) -> None:
        """End the process: SIGTERM, and after the part's time SIGKILL."""
        if self._keeper:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        if self._running is None:
            return
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.part.stop_seconds):
                await self._running.wait()
        except TimeoutError:
            self._say(f"{self.name} did not end in {self.part.stop_seconds:.0f} s and is killed")
            self.kill()
            await self._running.wait()

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    async def _restart_for_ever(self, group: Callable[[], int]) -> None:
        failures = 0
        while True:
            status = await self._process.wait()
            failures = 1 if time.time() - self.started_at > HEALTHY_SECONDS else failures + 1
            pause = RESTARTS.seconds(failures)
            self._say(f"{self.name} ended with status {status}, starts again in {pause:.0f} s (log: {self.log})")
            await asyncio.sleep(pause)
            try:
                await self.start(group())
                self._say(f"{self.name} started again")
            except OSError as error:
                self._say(f"{self.name} cannot be started: {error.strerror}")

    @property
    def _process(self) -> asyncio.subprocess.Process:
        assert self._running is not None, f"{self.name} was never started"
        return self._running

    def _send(self, number: signal.Signals) -> None:
        if self._running is not None and self._running.returncode is None:
            with suppress(ProcessLookupError):
                self._running.send_signal(number)

    def _did_not_start(self, problem: str) -> NotReady:
        return NotReady(f"{self.name} {problem}; the end of {self.log}:\n{_tail(self.log)}")


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-LAST_LINES:]) or "  (nothing)"
