"""The context of every command: an installation, its parts, and bulkheads for blocking calls.

The commands of a capability need some of the ports in the store: each names them by a protocol.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from crawler_lifecycle.base.bulkhead import Bulkhead
from crawler_lifecycle.base.requesters import NOBODY, Requester
from crawler_lifecycle.settings.installation import Installation

if TYPE_CHECKING:
    from crawler_lifecycle.clusters.adapters.scheduler_client import SchedulerClient
    from crawler_lifecycle.clusters.ports import Cluster
    from crawler_lifecycle.delivery.ports import Archiver

T = TypeVar("T")
Store_co = TypeVar("Store_co", covariant=True)
SCHEDULER_THREADS = 6
SCHEDULER_PATIENCE = 10.0  # seconds that a call waits for a free thread before the call is refused
CHECK_THREADS = 8  # a thread for every blocking check: no check waits for a part that hangs


def _scheduler_bulkhead() -> Bulkhead:
    """Return a bulkhead beside the database's: a stop must not wait for calls to a scheduler service that hangs."""
    return Bulkhead("the scheduler service", SCHEDULER_THREADS, patience=SCHEDULER_PATIENCE)


class CommandParts(Protocol[Store_co]):
    """An installation's adapters. An adapter is imported and opened at its first use."""

    @property
    def store(self) -> Store_co: ...

    @property
    def cluster(self) -> "Cluster": ...

    @property
    def deployer(self) -> "SchedulerClient": ...

    @property
    def archiver(self) -> "Archiver": ...

    def close(self) -> None:
        """Close the connections to the database, if there are any."""


@dataclass(frozen=True)
class ControlContext(Generic[Store_co]):
    installation: Installation
    parts: CommandParts[Store_co]
    requester: Requester = NOBODY  # of the commands
    calls: Bulkhead = field(default_factory=lambda: Bulkhead("the database"))  # for all calls without an own bulkhead
    scheduler_calls: Bulkhead = field(default_factory=_scheduler_bulkhead)
    checks: Bulkhead = field(default_factory=lambda: Bulkhead("the checks of doctor", CHECK_THREADS))
    _opening: threading.Lock = field(default_factory=threading.Lock)

    @property
    def own_host(self) -> str:
        """Return the name of the hosts for the flows that this process pushes; empty: all hosts."""
        return self.installation.settings.flows.own_host

    @property
    def store(self) -> Store_co:
        """Return the database. The lock keeps the first calls of several threads from opening several databases."""
        with self._opening:
            return self.parts.store

    async def database(self, call: Callable[[Store_co], T]) -> T:
        """Return the call's result from a thread. The thread also opens the store, since opening may block."""
        return await self.calls.run(lambda: call(self.store))

    def close(self) -> None:
        """Close the connections to the database, if there are any."""
        with self._opening:
            self.parts.close()

    async def scheduler(self, call: Callable[["SchedulerClient"], T]) -> T:
        return await self.scheduler_calls.run(lambda: call(self.parts.deployer))
