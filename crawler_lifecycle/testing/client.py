"""Client on flows in memory: the service's own client, in front of a ledger in memory."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.base.names import ROOT, SEPARATOR
from crawler_lifecycle.client.blocking import LoopThread
from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows import opened
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.model.manager_records import ItemSums
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.ports.ledger import FlowStore
from crawler_lifecycle.managers.commands import CatalogueManagers
from crawler_lifecycle.temporal.engine import Engine
from crawler_lifecycle.testing.records import MemoryLedger

T = TypeVar("T")


class MemoryClient(WorkflowClient):
    """The client for a step's function, a program or a test. Nothing runs by a request alone."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.actor = "test"
        self.control = cast(Control, _MemoryControl(ledger))
        self._thread = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:  # type: ignore[override]
        """Loop for `blocking`, in a thread of its own."""
        if self._loop is None:
            thread = self._thread.enter_context(LoopThread())
            self._loop = thread.run(_running_loop())
        return self._loop

    @contextmanager
    def surrounding(self) -> Iterator[None]:
        """Be the innermost open client during a call."""
        with opened(self):
            yield

    def end_thread(self) -> None:
        self._loop = None
        self._thread.close()


class _MemoryControl:
    """Stand-in for `Control`, with the client's parts alone."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.context = _MemoryContext(ledger)
        self.flows = _MemoryCommands(ledger, cast(ControlContext[FlowStore], self.context), cast(Any, _NoEngine()))


class _MemoryContext:
    own_host = ""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.store = SimpleNamespace(flow_doors=ledger, flow_records=ledger, manager_doors=_NoManagers())

    async def database(self, call: Callable[[Any], T]) -> T:
        return call(self.store)

    def close(self) -> None:
        """Close no connection."""


class _NoManagers:
    """Readings of crawl managers. Flows in memory have none."""

    def sums(self, flow_uids: Collection[str]) -> Mapping[str, ItemSums]:  # noqa: ARG002
        return {}


class _NoEngine:
    """An engine for flows without supervisors: a request needs no notification."""

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None: ...


class _MemoryCommands(FlowCommands):
    """The commands of the service, with the flows' virtual time."""

    def __init__(self, ledger: MemoryLedger, context: ControlContext[FlowStore], engine: Engine) -> None:
        super().__init__(context, engine, CatalogueManagers(context))
        self._ledger = ledger

    def status(self, flow: str, path: str = ROOT) -> FlowStatus:
        chosen = self._ledger.flow(flow).status
        for name in path.split(SEPARATOR) if path else ():
            if name not in chosen.subs:
                raise NotFound(f"flow {flow!r} has no sub-workflow {path!r}")
            chosen = chosen.subs[name]
        return chosen


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
