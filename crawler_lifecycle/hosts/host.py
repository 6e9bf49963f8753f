"""A host joins the parts that run the steps of activities in a process.

Routes find the functions in the host's modules, and a hash of the loaded files is the code's version. At the host's end
its functions may end, and further hosts get the other attempts at once.
"""

import asyncio
import hashlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from crawler_lifecycle.flows.activities.steps import TryAgain
from crawler_lifecycle.flows.authors.modules import Modules, is_file
from crawler_lifecycle.flows.authors.running import running
from crawler_lifecycle.flows.ports.ledger import FlowDoors
from crawler_lifecycle.flows.ports.steps import StepLedger
from crawler_lifecycle.flows.rules.messages import RunSteps, StepsEnded
from crawler_lifecycle.flows.rules.words import BROKEN_MODULE, UNKNOWN_STEP
from crawler_lifecycle.hosts.attempts import GRACE_SECONDS, Attempts, Execution, Gone
from crawler_lifecycle.hosts.calling import Function, is_manager
from crawler_lifecycle.hosts.ends import EndWriter
from crawler_lifecycle.hosts.functions import Functions, Surroundings
from crawler_lifecycle.hosts.lease import Begins, UnderWay
from crawler_lifecycle.hosts.looks import HostLook
from crawler_lifecycle.hosts.managers.hosting import Managers
from crawler_lifecycle.hosts.slices import Slices
from crawler_lifecycle.hosts.slots import Slots
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.model.naming import managers_queue, route_parts
from crawler_lifecycle.settings.processes import FlowSettings

logger = logging.getLogger(__name__)
LAST_SECONDS = 5.0  # for a host's last ends
DIGITS = 12
UNKNOWN_PAUSE = timedelta(seconds=10)
LONGEST_CAUSE = 255  # characters in the database
MOST_LOGGED = 1_000  # problems that a host remembers
Managing = Callable[[Modules, str, FlowSettings], Managers]  # makes the managers for a host with the token
THREADS = 8  # for the host's own work


@dataclass(frozen=True)
class Draining:
    slices: Slices
    ends: EndWriter
    seconds: float  # for functions to end

    async def drain(self) -> None:
        """Begin no further function, and let the functions end for some time. Then stop the remaining functions.

        Begins without an end are withdrawn, so that another host takes the attempts at once.
        """
        if self.slices.is_closed:
            return
        self.slices.is_closed = True
        self.slices.attempts.functions.end_spare_processes()
        under_way, withdraw = self.slices.under_way, self.slices.begins.withdraw
        waiting = [execution for execution in under_way.executions if execution.running is None]
        await withdraw([execution.key for execution in waiting])
        await _left(waiting, GRACE_SECONDS)
        managers = [execution for execution in under_way.executions if execution.is_manager]
        await _left(managers, GRACE_SECONDS)  # at once: another host goes on, while functions here still end
        await withdraw([execution.key for execution in managers])
        others = [execution for execution in under_way.executions if not execution.is_manager]
        await _settled(others, self.seconds)
        await _left(others, GRACE_SECONDS + LAST_SECONDS)
        under_way.close()
        await asyncio.to_thread(self.ends.close, LAST_SECONDS)
        await withdraw([execution.key for execution in others])


async def _left(executions: Sequence[Execution], seconds: float) -> None:
    """Give the executions up, and wait until they have settled."""
    for execution in executions:
        execution.leave(Gone.DRAINED)
    await _settled(executions, seconds)


async def _settled(executions: Sequence[Execution], seconds: float) -> None:
    if executions:
        await asyncio.wait([execution.settled for execution in executions], timeout=seconds)


def code_version(modules: Modules) -> str:
    """Return a short hash of the host's modules, and of the loaded modules in the same packages or beside its files.

    Further modules are left out, such as installed libraries.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_files(modules)):
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGITS]


class UnimportedManager(BaseLoopScript):
    """Stands for a manager whose module is broken. The object's own process imports the module and reports its failure.

    So the manager is paused with the failure, and a resume reads the mended file.
    """


@dataclass(frozen=True)
class Routes:
    modules: Modules
    begins: Begins
    _logged: set[tuple[str, str]] = field(default_factory=set)  # flows with their problems

    async def functions(self, step: RunSteps) -> Mapping[int, Function]:
        """Return the functions by member: for all starts, and for the followers with a function in the host."""
        function = await self._function(step)
        functions = {start.number: function for start in step.starts}
        for follower in step.followers:
            following = self._known(follower.route)
            if following is not None and not is_manager(following):  # a manager needs a slot of its own kind
                functions[follower.start.number] = following
        return functions

    async def _function(self, step: RunSteps) -> Function:
        """Return the function of the starts. TryAgain, with the cause on record, if the modules do not have it."""
        function = self._known(step.route)
        if function is None:
            _, module, name = route_parts(step.route)
            broken = self.modules.broken.get(module)
            problem = broken or f"{module} has no function {name} at its top level"
            cause = UNKNOWN_STEP if broken is None else f"{BROKEN_MODULE}:{broken}"[:LONGEST_CAUSE]
            await self.begins.note_cause(step, cause)
            self._log(step.flow_id, problem)
            raise TryAgain(problem, UNKNOWN_PAUSE, cause="UnknownStep")
        return function

    def _log(self, flow: str, problem: str) -> None:
        """Log a flow's problem once, since Temporal repeats the activity every few seconds."""
        if (flow, problem) in self._logged:
            return
        if len(self._logged) >= MOST_LOGGED:
            self._logged.clear()
        self._logged.add((flow, problem))
        logger.error("a step of flow %s waits: %s", flow, problem)

    def _known(self, route: str) -> Function | None:
        queue, module, name = route_parts(route)
        if module in self.modules.broken and queue.endswith(managers_queue("")):
            return UnimportedManager
        return self.modules.function(f"{module}:{name}")


class StepHost:
    """The host in a process. All methods belong to the process's event loop."""

    def __init__(
        self,
        ledger: StepLedger,
        doors: FlowDoors,
        modules: Modules,
        settings: FlowSettings,
        name: str,
        surroundings: Surroundings = running,
        managing: Managing | None = None,
    ) -> None:
        self.slots = Slots(settings.slots)
        self.manager_slots = Slots(settings.manager_slots, "manager")
        token, lasts = str(uuid4()), timedelta(seconds=settings.lease_seconds)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="host")
        version = settings.code_version or code_version(modules)
        begins = Begins(ledger, token, name, version, threads)
        self._routes = Routes(modules, begins)
        self._functions = Functions(modules, ledger, threads, settings.largest_result, surroundings)
        self._ends = EndWriter(ledger, token)
        self._under_way = UnderWay(ledger, token, lasts)
        managers = None if managing is None else managing(modules, token, settings)
        attempts = Attempts(doors, self._functions, self._ends, threads, settings.step_seconds, managers)
        self._slices = Slices(attempts, self._under_way, begins, self.slots, self.manager_slots)
        self._draining = Draining(self._slices, self._ends, settings.drain_seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run steps during the block, then drain."""
        await asyncio.to_thread(self._under_way.start)
        self._ends.start()
        watching = asyncio.create_task(self._functions.loops.watch())
        try:
            yield
        finally:
            await self.drain()
            watching.cancel()

    async def run(self, step: RunSteps) -> StepsEnded:
        """Run the attempts, and return their ends. A cancelled call ends no function."""
        look = HostLook(step)
        task = self._slices.tasks.spawn(self._run(look))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            look.is_left = True
            raise

    async def drain(self) -> None:
        """Begin no further function, and let the functions end for some time. Then stop the remaining functions."""
        await self._draining.drain()

    async def _run(self, look: HostLook) -> StepsEnded:
        functions = await self._routes.functions(look.step)
        look.followers.keep(functions)
        await self._slices.run(look, functions)
        return look.result


def _files(modules: Modules) -> Iterator[tuple[str, Path]]:
    """Yield names and files. A module may have no file, such as a namespace package."""
    packages = {name.partition(".")[0] for name in modules.names}
    folders = {Path(target).resolve().parent for target in modules.targets if is_file(target)}
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.is_file() and (name.partition(".")[0] in packages or path.parent in folders):
            yield name, path
