"""Nudges: a flow's supervisor learns about a change to a run.

A nudge follows the commit of the change. A lost nudge does no harm: the supervisor's next paced look finds the change,
and the audit finds a change after the flow's end.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from crawler_lifecycle.delivery.ports.outside import FlowSupervisors
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.temporal.boundary import worker_loop

GAP = 0.1  # seconds between two nudges to a flow: many runs may end at once
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FlowNudges:
    """Nudges from a process. What comes while a flow's nudge is under way goes with the flow's next nudge."""

    supervisors: FlowSupervisors | None
    _under_way: dict[str, bool] = field(default_factory=dict)  # by flow: whether another nudge follows
    _sending: set["asyncio.Task[None]"] = field(default_factory=set)

    def tell(self, link: FlowLink | None) -> None:
        """Nudge the flow soon, from an activity's thread. None: the run belongs to no flow."""
        if link is None or self.supervisors is None or link.manager is not None:
            return
        loop = worker_loop.get()
        if loop is None:  # outside of a worker
            asyncio.run(self.send(link))
        else:
            loop.call_soon_threadsafe(self._begin, link)

    async def send(self, link: FlowLink | None) -> None:
        """Nudge the flow now. A failure is only logged. A manager itself reads the ends of its runs."""
        if link is None or self.supervisors is None or link.manager is not None:
            return
        try:
            await self.supervisors.nudge_flow(link.flow_uid, link.flow_id)
        except LifecycleError as error:
            logger.warning("flow %s learns of a run at its next look or by the audit: %s", link.flow_id, error.message)

    def _begin(self, link: FlowLink) -> None:
        is_first = link.flow_uid not in self._under_way
        self._under_way[link.flow_uid] = not is_first
        if is_first:
            task = asyncio.get_running_loop().create_task(self._send_all(link))
            self._sending.add(task)  # the loop itself keeps no reference
            task.add_done_callback(self._sending.discard)

    async def _send_all(self, link: FlowLink) -> None:
        """Send a nudge, and further nudges while changes come."""
        try:
            await self.send(link)
            await asyncio.sleep(GAP)
            while self._under_way[link.flow_uid]:
                self._under_way[link.flow_uid] = False
                await self.send(link)
                await asyncio.sleep(GAP)
        finally:
            del self._under_way[link.flow_uid]


NO_NUDGES = FlowNudges(None)
