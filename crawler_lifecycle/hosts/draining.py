"""Draining: the end of a host. Its functions may end, and further hosts get the other attempts at once."""

import asyncio
from dataclasses import dataclass

from crawler_lifecycle.hosts.batches import Batches
from crawler_lifecycle.hosts.claiming import Claiming
from crawler_lifecycle.hosts.ends import EndWriter
from crawler_lifecycle.hosts.execution import GRACE_SECONDS, Gone
from crawler_lifecycle.hosts.under_way import UnderWay

LAST_SECONDS = 5.0  # for a host's last ends


@dataclass(frozen=True)
class Draining:
    under_way: UnderWay
    claiming: Claiming
    batches: Batches
    ends: EndWriter
    seconds: float  # for functions to end

    async def drain(self) -> None:
        """Begin no further function, and let the functions end for some time. Then stop the remaining functions.

        Claims without an end are released, so that another host takes the attempts at once.
        """
        if self.batches.is_closed:
            return
        self.batches.is_closed = True
        await self._hand_managers_over()
        await self._release_waiting()
        await self._end_functions()
        self.under_way.lease.close()
        await asyncio.to_thread(self.ends.close, LAST_SECONDS)
        await self.claiming.release(None)
        self.under_way.settle_all()

    async def _hand_managers_over(self) -> None:
        """Leave the managers at once: another host goes on, while functions here still end."""
        managers = [execution for execution in self.under_way.executions if execution.is_manager]
        for execution in managers:
            execution.leave(Gone.DRAINED)
        await self.under_way.wait(managers, GRACE_SECONDS)
        await self.claiming.release([execution.key for execution in managers])

    async def _release_waiting(self) -> None:
        """Release the attempts whose functions have not begun."""
        waiting = [execution.key for execution in self.under_way.executions if execution.running is None]
        await self.claiming.release(waiting)
        self.under_way.settle_all(waiting)

    async def _end_functions(self) -> None:
        await self.under_way.wait(self.under_way.executions, self.seconds)
        for execution in self.under_way.executions:
            execution.leave(Gone.DRAINED)
        await self.under_way.wait(self.under_way.executions, GRACE_SECONDS + LAST_SECONDS)
