"""Host: the parts that run the steps of activities in a process. The parts have their own modules."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from crawler_lifecycle.flows.authors.modules import Modules
from crawler_lifecycle.flows.authors.running import running
from crawler_lifecycle.flows.ports.claims import AttemptKey, StepClaims
from crawler_lifecycle.flows.ports.ledger import FlowDoors
from crawler_lifecycle.flows.rules.messages import RunSteps, StepsEnded
from crawler_lifecycle.hosts.attempts import Attempts
from crawler_lifecycle.hosts.batches import Batches
from crawler_lifecycle.hosts.claiming import Claiming
from crawler_lifecycle.hosts.draining import Draining
from crawler_lifecycle.hosts.ends import EndWriter
from crawler_lifecycle.hosts.functions import Functions, Surroundings
from crawler_lifecycle.hosts.joining import Joining
from crawler_lifecycle.hosts.looks import Look
from crawler_lifecycle.hosts.managers.hosting import Managers
from crawler_lifecycle.hosts.routes import Routes
from crawler_lifecycle.hosts.slots import Slots
from crawler_lifecycle.hosts.tasks import Tasks
from crawler_lifecycle.hosts.under_way import UnderWay
from crawler_lifecycle.hosts.versions import code_version
from crawler_lifecycle.settings.processes import FlowSettings

Managing = Callable[[Modules, str, FlowSettings], Managers]  # makes the managers for a host with the token
logger = logging.getLogger(__name__)
THREADS = 8  # for the host's own work


class StepHost:
    """The host in a process. All methods belong to the process's event loop."""

    def __init__(
        self,
        claims: StepClaims,
        doors: FlowDoors,
        modules: Modules,
        settings: FlowSettings,
        name: str,
        surroundings: Surroundings = running,
        managing: Managing | None = None,
    ) -> None:
        self.slots = Slots(settings.slots)
        self.manager_slots = Slots(settings.manager_slots, "manager")
        token, lasts = str(uuid4()), timedelta(seconds=settings.claim_seconds)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="host")
        version = settings.code_version or code_version(modules)
        self._tasks = Tasks()
        self._claiming = Claiming(claims, token, name, version, threads)
        self._routes = Routes(modules, self._claiming)
        self._functions = Functions(modules, claims, threads, settings.largest_result, surroundings)
        self._ends = EndWriter(claims, token)
        self._under_way = UnderWay(claims, token, lasts, self._release_unused)
        managers = None if managing is None else managing(modules, token, settings)
        attempts = Attempts(claims, doors, token, self._functions, self._ends, threads, settings.step_seconds, managers)
        batches = Batches(attempts, self._under_way, self._claiming, self._tasks)
        self._joining = Joining(self._under_way, self._claiming, batches, self._tasks, self.slots, self.manager_slots)
        self._draining = Draining(self._under_way, self._claiming, batches, self._ends, settings.drain_seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run steps during the block, then drain."""
        await asyncio.to_thread(self._under_way.lease.start)
        self._ends.start()
        watching = asyncio.create_task(self._functions.loops.watch())
        try:
            yield
        finally:
            await self.drain()
            watching.cancel()

    async def run(self, step: RunSteps) -> StepsEnded:
        """Run the attempts, and return their ends. A cancelled call ends no function."""
        look = Look(step)
        task = self._tasks.spawn(self._run(look))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            look.is_left = True
            raise

    async def drain(self) -> None:
        """Begin no further function, and let the functions end for some time. Then stop the remaining functions."""
        await self._draining.drain()

    async def _run(self, look: Look) -> StepsEnded:
        functions = await self._routes.functions(look.step)
        look.followers.keep(functions)
        await self._joining.run(look, functions)
        return look.result

    def _release_unused(self, keys: Collection[AttemptKey]) -> None:
        """Release claims without an execution, such as after a release without an answer."""
        logger.warning("%d claims are released, since no function runs under them", len(keys))
        self._tasks.spawn(self._claiming.release(keys))
