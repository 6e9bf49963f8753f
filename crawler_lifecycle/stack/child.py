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

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.settings import stack_processes
from crawler_lifecycle.settings.stack_file import Process
from crawler_lifecycle.stack.plan import StackPart

PROBE_PAUSE = 0.1  # seconds between two probes of a starting process
SLOW_SECONDS = 30.0  # after this time, a line says that a process is not ready yet
START_PATIENCE = 120.0  # seconds; a process that is not ready by then counts as failed
RESTARTS = Backoff(timedelta(seconds=1), timedelta(seconds=30))  # pauses before a restart
HEALTHY_SECONDS = 60.0  # a process that ran for longer is restarted after the shortest pause
LAST_LINES = 8  # lines shown from the log when a process does not start
TAIL_BYTES = 4096  # read from the end of the log for the last lines
BIG_LOG = 10_000_000  # bytes; a longer log becomes `.log.1` at the next start

Say = Callable[[str], None]  # shows a line to the user
Probe = Callable[[], Awaitable[None]]  # raises a LifecycleError while the process is not ready


class StackChild:
    """A part's process. `on_start` is called after every start, so that the stack records the new process."""

    def __init__(
        self, part: StackPart, environment: dict[str, str], log: Path, say: Say, on_start: Callable[[], None]
    ) -> None:
        self.part = part
        self.log = log
        self.started_at = 0.0
        self.record: Process | None = None  # identifies the process for other programs
        shown = {name: value for name, value in environment.items() if name not in part.hidden_variables}
        self._environment = {**shown, **part.own_variables}
        self._say = say
        self._on_start = on_start
        self._process: asyncio.subprocess.Process | None = None
        self._restarting: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.part.name

    async def start(self, group: int) -> None:
        """Start the process in the reaper's process group: the reaper ends the process if the stack is killed."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > BIG_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.started_at = time.time()
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.part.command,
                stdin=subprocess.DEVNULL,
                stdout=log if self.part.output is None else self.part.output,
                stderr=log,
                env=self._environment,
                process_group=group,
            )
        self.record = stack_processes.describe(self.name, self._process.pid)
        self._on_start()

    async def wait_ready(self, probe: Probe) -> None:
        """Wait until the probe succeeds. NotReady, with the end of the log: the process ended or took too long."""
        process_end = asyncio.create_task(self._started_process.wait())
        began_at, problem, is_slow = time.monotonic(), "it does not answer", False
        try:
            while (seconds := time.monotonic() - began_at) < START_PATIENCE:
                try:
                    return await probe()
                except LifecycleError as error:
                    problem = error.message
                done, _ = await asyncio.wait([process_end], timeout=PROBE_PAUSE)
                if done:
                    raise self._did_not_start(f"ended with status {process_end.result()}")
                if seconds > SLOW_SECONDS and not is_slow:
                    is_slow = True
                    self._say(f"{self.name} is not ready after {SLOW_SECONDS:.0f} s ({problem}); the start continues")
            raise self._did_not_start(f"is not ready after {START_PATIENCE:.0f} s ({problem})")
        finally:
            process_end.cancel()

    def refuse_ended(self) -> None:
        """Raise NotReady if the process has ended."""
        status = self._started_process.returncode
        if status is not None:
            raise self._did_not_start(f"ended with status {status}")

    def keep_running(self, group: Callable[[], int]) -> None:
        """From now on, restart the process whenever the process ends, after a growing pause.

        `group` returns the process group of the present reaper.
        """
        self._restarting = asyncio.create_task(self._restart_for_ever(group))

    async def stop(self) -> None:
        """End the process: SIGTERM, and SIGKILL after the time that the part may take."""
        if self._restarting:
            self._restarting.cancel()
            with suppress(asyncio.CancelledError):
                await self._restarting
        if self._process is None:
            return
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.part.stop_seconds):
                await self._process.wait()
        except TimeoutError:
            self._say(f"{self.name} did not end in {self.part.stop_seconds:.0f} s and is killed")
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    async def _restart_for_ever(self, group: Callable[[], int]) -> None:
        failures = 0
        while True:
            status = await self._started_process.wait()
            was_healthy = time.time() - self.started_at > HEALTHY_SECONDS
            failures = 1 if was_healthy else failures + 1
            pause = RESTARTS.seconds(failures)
            self._say(f"{self.name} ended with status {status}, starts again in {pause:.0f} s (log: {self.log})")
            await asyncio.sleep(pause)
            try:
                await self.start(group())
                self._say(f"{self.name} started again")
            except OSError as error:
                self._say(f"{self.name} cannot be started: {error.strerror}")

    @property
    def _started_process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _did_not_start(self, problem: str) -> NotReady:
        return NotReady(f"{self.name} {problem}; the end of {self.log}:\n{_last_lines(self.log)}")


def _last_lines(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-LAST_LINES:]) or "  (nothing)"
