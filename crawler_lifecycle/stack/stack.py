"""Starts, supervises and ends all parts of the embedded stack, or a host of steps beside a running installation."""

import asyncio
import fcntl
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO

import httpx

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import stack_file, stack_processes
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.settings.stack_file import StackFile
from crawler_lifecycle.stack import processes
from crawler_lifecycle.stack.child import Say, StackChild
from crawler_lifecycle.stack.plan import (
    StackPart,
    StackPlan,
    StepModules,
    lifecycle_part,
    service_part,
    steps_part,
    temporal_part,
)

RETENTION = timedelta(days=30)  # of closed workflows in Temporal
LEFTOVER_GRACE = 5.0  # seconds between SIGTERM and SIGKILL for processes of an earlier stack
REAPER_PATIENCE = 30.0  # seconds for the reaper to end the remaining processes; then the reaper is killed
RECORD_PAUSE = 1.0  # seconds between two tries to write the record of processes
OWN_GROUP = 0  # a new process group: Ctrl-C reaches the host only by its parent, which waits for steps under way


@contextmanager
def owned(state: Path) -> Iterator[None]:
    """Own the state folder alone during the block, and first end the processes that an earlier stack left running."""
    with _lock_file(state) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotReady(
                f"a stack runs on {state} already: end it, or choose another folder with --state; a further module "
                "gets a host of its own beside it, with `crawlctl host FILE`"
            ) from error
        end_leftovers(state)
        yield


def _lock_file(state: Path) -> IO[str]:
    """Open the lock file, and make the state folder private: the folder holds tokens and the input of crawlers."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        state.chmod(0o700)
        return (state / "lock").open("w")
    except OSError as error:
        raise NotReady(f"{state} cannot be the state folder: {error.strerror}; choose another with --state") from error


def end_leftovers(state: Path) -> None:
    """End the processes of an earlier stack, and remove its record."""
    recorded = stack_file.read(state)
    if recorded:
        processes.end(filter(None, map(stack_processes.find, recorded.processes)), LEFTOVER_GRACE)
        stack_file.remove(state)


class Stack:
    """All parts of the embedded stack, in a state folder `owned` by the caller.

    A `temporary` stack ends its jobs and removes its state folder, also if the stack is killed: the reaper does both.
    """

    def __init__(self, plan: StackPlan, say: Say, *, temporary: bool = False) -> None:
        self.plan = plan
        self._say = say
        self._temporary = temporary
        self._id = str(uuid.uuid4())
        self._environment = dict(plan.environment)
        self._children: list[StackChild] = []
        self._reaper: subprocess.Popen[bytes] | None = None
        self._is_recorded = True  # False after the record could not be written

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Control]:
        """Run all parts during the block."""
        recording = asyncio.create_task(self._record_when_possible())
        try:
            await self._start()
            yield self.control
        finally:
            recording.cancel()
            await self._stop()

    @property
    def control(self) -> Control:
        return Control(Installation.with_variables(self.plan.state, self._environment))

    def kill(self) -> None:
        """Kill all parts at once, without a drain."""
        for child in self._children:
            child.kill()

    async def _start(self) -> None:
        """Start all parts and wait until the parts are ready. From then on, restart a part that ends."""
        self._start_reaper()
        installation = await asyncio.to_thread(_upgrade_database, self.plan)
        self._environment["CRAWLER_CLUSTER__INSTALLATION"] = installation
        control = self.control
        temporal = await self._start_child(temporal_part(self.plan))
        scheduler = await self._start_child(service_part(self.plan, "scheduler"))
        await temporal.wait_ready(control.engine.ping)
        await control.engine.extend_retention(RETENTION)
        for name in ("dispatcher", "watcher"):
            await self._start_child(service_part(self.plan, name))
        api = await self._start_child(service_part(self.plan, "api"))
        drain = control.installation.settings.worker.drain_seconds
        worker = await self._start_child(lifecycle_part(self.plan, drain))
        await scheduler.wait_ready(lambda: _probe_scheduler(control))
        await api.wait_ready(lambda: _probe_api(self.plan.api_url))
        await worker.wait_ready(lambda: _probe_worker(control, worker.started_at))
        if self.plan.steps.targets:
            await self._start_host(control)
        for child in self._children:
            child.refuse_ended()
        for child in self._children:
            child.keep_running(self._ensure_reaper)

    async def _start_host(self, control: Control) -> None:
        """Start the host of steps, and wait until the host has imported its modules and asks for steps."""
        drain = control.installation.settings.flows.drain_seconds
        host = await self._start_child(steps_part(self.plan.steps, drain))
        for route in self.plan.steps.routes:
            await host.wait_ready(partial(probe_host, control, route, host.started_at))

    async def _stop(self) -> None:
        """End the parts in reverse order: host of steps and worker, which drain, end first, and Temporal last."""
        for child in reversed(self._children):
            await child.stop()
        if self._reaper is not None:
            await asyncio.to_thread(self._dismiss_reaper, self._reaper)
        if not self._temporary:
            stack_file.remove(self.plan.state)

    async def _start_child(self, part: StackPart) -> StackChild:
        environment = {**self.plan.child_environment, **self._environment}
        child = StackChild(part, environment, self.plan.state / "logs" / f"{part.name}.log", self._say, self._record)
        self._children.append(child)
        try:
            await child.start(self._ensure_reaper())
        except OSError as error:
            raise NotReady(f"{part.name} cannot be started: {part.command[0]}: {error.strerror}") from error
        return child

    def _record(self) -> None:
        """Write the present processes into the stack's file, for other programs."""
        reaper = stack_processes.describe("reaper", self._reaper.pid) if self._reaper else None
        records = [reaper, *(child.record for child in self._children)]
        recorded = [record for record in records if record is not None]
        stack = StackFile(stack=self._id, environment=self._environment, web_ui=self.plan.web_ui, processes=recorded)
        try:
            stack_file.write(self.plan.state, stack)
            self._is_recorded = True
        except NotReady as error:  # a missing record is no reason to end a part
            if self._is_recorded:
                self._say(f"the processes of the stack are not recorded yet: {error.message} (tried again)")
            self._is_recorded = False

    async def _record_when_possible(self) -> None:
        """Repeat a failed `_record` until the disk has room again: until then no other program finds new processes."""
        while True:
            await asyncio.sleep(RECORD_PAUSE)
            if not self._is_recorded:
                self._record()

    def _ensure_reaper(self) -> int:
        """Return the process group of the reaper. Start a reaper if there is none, or if the reaper was killed."""
        if self._reaper is None or self._reaper.poll() is not None:
            self._start_reaper()
        assert self._reaper is not None
        return self._reaper.pid

    def _start_reaper(self) -> None:
        log = self.plan.state / "logs" / "reaper.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", "crawler_lifecycle.stack.reaper"]
        command += [*(["--everything"] if self._temporary else []), str(self.plan.state), self._id]
        with log.open("ab") as errors:
            self._reaper = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self._environment},
                process_group=0,
            )
        assert self._reaper.stdout is not None
        self._reaper.stdout.readline()  # waits until the reaper has started and will end every child
        self._record()

    def _dismiss_reaper(self, reaper: subprocess.Popen[bytes]) -> None:
        """Let the reaper end the remaining processes, and wait for the reaper."""
        assert reaper.stdin is not None
        reaper.stdin.close()
        try:
            reaper.wait(REAPER_PATIENCE)
        except subprocess.TimeoutExpired:
            self._say(f"remaining processes of the stack could not be ended in {REAPER_PATIENCE:.0f} s")
            reaper.kill()


def _upgrade_database(plan: StackPlan) -> str:
    """Upgrade the embedded database, and return its installation's UUID."""
    from crawler_lifecycle.database.migrate import upgrade

    return upgrade(plan.environment["CRAWLER_DATABASE__URL"])


async def _probe_scheduler(control: Control) -> None:
    """Raise an error until the scheduler service answers. The service need not be ready: on a full disk, the stack
    makes no jobs, but shows and stops runs.
    """
    await asyncio.to_thread(control.parts.deployer.crawler_names)


async def _probe_api(url: str) -> None:
    try:
        answer = await asyncio.to_thread(httpx.get, f"{url}/healthz", trust_env=False)
    except httpx.HTTPError as error:
        raise NotReady("it does not answer yet") from error
    if answer.status_code != httpx.codes.OK:
        raise NotReady(f"it answers {answer.status_code}")


async def _probe_worker(control: Control, since: float) -> None:
    """Raise NotReady until a worker has asked for work since that time: Temporal lists earlier workers, too."""
    for pollers in (await control.engine.pollers(), await control.engine.archive_pollers()):
        _refuse_silent(pollers, since)


async def probe_host(control: Control, route: str, since: float) -> None:
    """Raise NotReady until the host has asked for steps of the route since that time."""
    _refuse_silent(await control.engine.step_pollers(route), since)


def _refuse_silent(pollers: Mapping[str, float], since: float) -> None:
    if not any(last_poll >= since for last_poll in pollers.values()):
        raise NotReady("it does not ask for work yet")


@asynccontextmanager
async def hosted(
    steps: StepModules, control: Control, environment: Mapping[str, str], say: Say
) -> AsyncIterator[StackChild]:
    """Run a host of the steps during the block. The block begins when the host asks for steps.

    Linux ends the host with this process, also if this process is killed.
    """
    settings = control.installation.settings
    part = steps_part(steps, settings.flows.drain_seconds, "--end-with-parent")
    log = settings.state / "logs" / f"flows-{os.getpid()}.log"
    host = StackChild(part, dict(environment), log, say, lambda: None)
    try:
        try:
            await host.start(OWN_GROUP)
        except OSError as error:
            raise NotReady(f"the host of steps cannot be started: {error}") from error
        for route in steps.routes:
            await host.wait_ready(partial(probe_host, control, route, host.started_at))
        host.keep_running(lambda: OWN_GROUP)
        yield host
    finally:
        await host.stop()
