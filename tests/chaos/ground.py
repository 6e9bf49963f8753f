"""The stack that everything happens to: `crawlctl up` on a disk of its own, with its database and what it speaks to.

All of it can be killed and started again on the same state; the jobs are no part of it and go on.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.clusters.local.records import JobFolder
from crawler_lifecycle.errors import LifecycleError, NotReady
from crawler_lifecycle.settings import stack_file, stack_processes
from crawler_lifecycle.settings.stack_file import Process
from tests.chaos import graph, managing
from tests.chaos.disk import Disk, small_disk
from tests.chaos.outside import Outside, outside
from tests.kit.data.databases import MariaDB, create_database, mariadb
from tests.kit.service.embedded import CRAWLCTL, Crawlctl, environment, of_worker
from tests.kit.waiting import eventually_async
from tests.process.crawls import Site, catalogue_of, end_all_of
from tests.process.stops import CRAWLERS

DISK_MEBIBYTES = 768
UP_PATIENCE = 180.0  # also with a database that comes back in the middle of it
END_PATIENCE = 60.0
PARTS = ("temporal", "scheduler", "dispatcher", "watcher", "api", "lifecycle", "flows")
# jobs of flows open their own gates
ENDS = 'sleep 3; echo {code} > "$TRUTH/$CRAWL_RUN_UID.$CRAWL_TASK.draft"\n' + (
    'mv "$TRUTH/$CRAWL_RUN_UID.$CRAWL_TASK.draft" "$TRUTH/$CRAWL_RUN_UID.$CRAWL_TASK"\n'
)
OF_FLOWS = {"soon": ENDS.format(code=0), "soon-failing": ENDS.format(code=4)}
CALM_JOBS = "PAUSE=1\n"  # a hundred jobs that wait for their gates would keep the machine busy
DURABLE = (
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=64M",
    "--skip-log-bin",
    "--skip-name-resolve",
)
ACCOUNT, PASSWORD = "crawler", "crawler"
OWN_HEALTH_PORT = {"CRAWLER_HEALTH__PORT": "0"}  # of the worker beside the stack's
SETTINGS = {
    "CRAWLER_SCHEDULER__TIMEOUT_SECONDS": "5",
    "CRAWLER_DISPATCHER__CLAIM_SECONDS": "10",
    "CRAWLER_FLOWS__LEASE_SECONDS": "10",
    "CRAWLER_AUDIT__EVERY_SECONDS": "30",
    "CRAWLER_AUDIT__WORKFLOW_SECONDS": "5",
    "CRAWLER_AUDIT__JOB_SECONDS": "20",
    "CRAWLER_AUDIT__HANDOVER_SECONDS": "20",
    "CRAWLER_AUDIT__FAILED_EXPORT_SECONDS": "20",
}


@dataclass
class Ground:
    """`said`: what the environment of the stack says."""

    folder: Path
    disk: Disk
    outside: Outside
    database: MariaDB | None
    said: dict[str, str]
    site: Site = field(init=False)
    second: "subprocess.Popen[bytes] | None" = None  # a worker beside that of the stack
    _held: int = 0  # by so many faults is the stack kept from starting its parts again

    @property
    def state(self) -> Path:
        return self.disk.folder

    @property
    def steps(self) -> Path:
        """Folder with the notes of the flows' functions."""
        return Path(self.said[graph.TRUTH])

    @property
    def log(self) -> Path:
        """What `crawlctl up` told, on a disk that is never full."""
        return self.folder / "up.log"

    # The stack as a whole

    async def start(self) -> None:
        """Also while what it needs comes back: tried again until it does."""

        async def is_up() -> bool:
            return await self._is_up(await self._spawn())

        await eventually_async(is_up, "the stack to come up", UP_PATIENCE, pause=1.0)

    async def _spawn(self) -> asyncio.subprocess.Process:
        words = ["up", "--state", str(self.state), "--free-ports", "--catalogue", str(self.folder / "catalogue.toml")]
        words += ["--flows", graph.__name__, "--flows", managing.__name__]
        with self.log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *CRAWLCTL,
                *words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(self.folder, self.said),
                cwd=self.folder,
                start_new_session=True,  # a Ctrl-C is for us, and we end it in order
            )

    async def _is_up(self, process: asyncio.subprocess.Process) -> bool:
        told = self.log.stat().st_size

        def says_so() -> bool:
            with self.log.open("rb") as log:
                log.seek(told)
                return b"The stack is up" in log.read()

        while process.returncode is None:
            if says_so():
                self._take(process, await self._opened())
                return True
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 0.2)
        return False

    async def _opened(self) -> Control:
        """With its database: a control that opens that later does so in our own loop, which has faults to end."""
        control = Control.open(self.state)
        problems = [""]

        async def opened() -> bool:
            try:
                await asyncio.to_thread(lambda: control.parts.database)
            except LifecycleError as error:
                problems.append(error.message)
                return False
            return True

        await eventually_async(opened, "the database to be opened", UP_PATIENCE, pause=0.2, seen=lambda: problems[-1])
        return control

    def _take(self, process: asyncio.subprocess.Process, control: Control) -> None:
        """Its ports are new ones."""
        if hasattr(self, "site"):
            self.site.command, self.site.control = Crawlctl(process), control
        else:
            self.site = Site(self.state, self.folder / "truth", Crawlctl(process), control)
        self.end_second_worker()
        self.start_second_worker()

    def start_second_worker(self) -> None:
        found = stack_file.read(self.state)
        assert found
        with (self.folder / "second-worker.log").open("ab") as log:
            self.second = subprocess.Popen(
                [sys.executable, "-P", "-m", "workers.lifecycle"],
                stdout=log,
                stderr=log,
                env=environment(self.folder, self.said) | found.environment | of_worker(self.state) | OWN_HEALTH_PORT,
                cwd=self.folder,
                start_new_session=True,
            )

    def end_second_worker(self) -> None:
        if self.second:
            self.second.kill()
            self.second.wait()

    async def end(self) -> None:
        """In order."""
        self.end_second_worker()
        process = self.site.command.process
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(END_PATIENCE):
                await process.wait()

    async def kill_everything(self) -> None:
        """At once; none of the jobs."""
        process = self.site.command.process
        if process.returncode is None:
            process.kill()
        for each in self.recorded().values():
            self._send(each, signal.SIGKILL)
        self.end_second_worker()
        await process.wait()

    async def until_whole(self) -> None:
        """Every part is there again, and answers."""

        async def whole() -> bool:
            try:
                await self.site.control.engine.ping()
                await asyncio.to_thread(self.site.control.parts.deployer.check)
                await asyncio.to_thread(self.site.control.context.store.records.installation)
            except LifecycleError:
                return False
            return all(self.process_of(part) for part in PARTS)

        await eventually_async(whole, "every part of the stack to be there again", UP_PATIENCE, pause=0.2)

    # Its parts

    def recorded(self) -> dict[str, Process]:
        with suppress(NotReady):
            if found := stack_file.read(self.state):
                return {each.name: each for each in found.processes}
        return {}

    def process_of(self, part: str) -> psutil.Process | None:
        recorded = self.recorded().get(part)
        return stack_processes.find(recorded) if recorded else None

    def signal_part(self, part: str, number: signal.Signals) -> None:
        if recorded := self.recorded().get(part):
            self._send(recorded, number)

    def _send(self, recorded: Process, number: signal.Signals) -> None:
        """To that very process: its number may be somebody else's by now."""
        with suppress(psutil.NoSuchProcess):
            if process := stack_processes.find(recorded):
                process.send_signal(number)

    def kill_runner(self, job: Path) -> None:
        """Of the job with this folder."""
        started = JobFolder(job).started()
        if started:
            self._send(Process(name="runner", pid=started.runner_pid, created=started.runner_created), signal.SIGKILL)

    @contextmanager
    def nobody_starts_parts(self) -> Iterator[None]:
        """The stack's own supervisor stands still. Two may want that at once."""
        self._held += 1
        self._supervise(signal.SIGSTOP)
        try:
            yield
        finally:
            self._held -= 1
            if not self._held:
                self._supervise(signal.SIGCONT)

    def _supervise(self, number: signal.Signals) -> None:
        process = self.site.command.process
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


@asynccontextmanager
async def ground(folder: Path, *, on_mariadb: bool, capacity: int, **said: str) -> AsyncIterator[Ground]:
    """At the end nothing of it is left, however it ends. `said`: further settings."""
    truth = folder / "truth"
    truth.mkdir(parents=True)
    steps = folder / "steps"
    steps.mkdir()
    crawlers = {name: CALM_JOBS + first for name, first in {"plain": "", **CRAWLERS, **OF_FLOWS}.items()}
    (folder / "catalogue.toml").write_text(catalogue_of(truth, crawlers))
    with ExitStack() as opened:
        disk = opened.enter_context(small_disk(folder / "state", DISK_MEBIBYTES))
        opened.callback(end_all_of, folder)  # before the disk goes
        server = opened.enter_context(mariadb(*DURABLE)) if on_mariadb else None
        speaks_to = opened.enter_context(outside(folder))
        settings = {**SETTINGS, "CRAWLER_CLUSTER__CAPACITY": str(capacity), **speaks_to.settings, **said}
        settings[graph.TRUTH] = str(steps)
        if server:
            settings["CRAWLER_DATABASE__URL"] = _url(server)
        made = Ground(folder, disk, speaks_to, server, settings)
        await made.start()
        try:
            yield made
        finally:
            await made.end()


def _url(server: MariaDB) -> str:
    """Of an ordinary account, which may not write to a server that is read-only."""
    limits = "connect_timeout=3&read_timeout=5&write_timeout=5"
    return f"{create_database(server.port, ACCOUNT, PASSWORD)}?{limits}"
