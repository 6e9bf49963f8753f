"""Starts of flows whose push did not reach Temporal. Every worker looks for such flows outside of Temporal.

A push is stored first, and then nudges Temporal. Without this search, a flow that was pushed while Temporal was away
would wait for the next audit.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.delivery.ports import FlowSupervisors
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.flows.ports.records import FlowRecords

log = logging.getLogger(__name__)
PATIENCE = timedelta(seconds=5)  # the push's own nudge comes first
MOST_FLOWS = 500  # in a search


@dataclass(frozen=True)
class FlowStarts:
    """Loop that starts workflows for flows without a previous workflow."""

    records: FlowRecords
    supervisors: FlowSupervisors
    pause: float  # seconds between two searches; 0: none

    async def run(self) -> None:
        """Search indefinitely, or not at all without a pause."""
        while self.pause:
            try:
                await self.search()
            except LifecycleError as error:
                log.warning("flows without a start cannot be searched for: %s", error.message)
            await asyncio.sleep(self.pause)

    async def search(self) -> None:
        """Start the workflow of every flow that has waited longer than its push's nudge takes."""
        before = datetime.now(UTC) - PATIENCE
        for flow in await asyncio.to_thread(self.records.unstarted, before, limit=MOST_FLOWS):
            try:
                await self.supervisors.nudge_flow(flow.uid, flow.id)
            except TemporaryError:
                raise  # Temporal is away, for the flows after this flow as well
            except LifecycleError as error:
                log.warning("flow %s cannot be started, and the next search tries again: %s", flow.id, error.message)
            else:
                log.info("flow %s is started: its push had not reached Temporal", flow.id)
