"""Slots limit the numbers of functions and of crawl managers in a host at once.

All task queues of the host share its slots.

A function without an end after its time limit keeps its slot. The slot is lost until the function ends after all.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.flows.activities.steps import TryAgain

logger = logging.getLogger(__name__)
BUSY_SECONDS = 5.0  # longest wait for a free slot; then another host may take the steps
BUSY_PAUSE = timedelta(milliseconds=200)


class Slots(Collector):
    """Slots for the host's event loop."""

    def __init__(self, number: int, kind: str = "step") -> None:
        self.number = number
        self.kind = kind
        self.busy = 0
        self.lost = 0
        self.all_lost = asyncio.Event()  # the host cannot run further functions
        self._free = asyncio.Semaphore(number)

    async def take(self) -> None:
        """Wait for a slot, and take it."""
        await self._free.acquire()
        self.busy += 1

    async def take_soon(self) -> None:
        """Take a slot. TryAgain if no slot is free for some seconds: the steps would wait here beside an idle host."""
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self.take()
        except TimeoutError as error:
            raise TryAgain("all slots of the host are busy", BUSY_PAUSE, cause="Busy") from error

    @property
    def free(self) -> int:
        return max(0, self.number - self.busy)

    @property
    def is_full(self) -> bool:
        return self._free.locked()

    def give_back(self) -> None:
        self.busy -= 1
        self._free.release()

    def lose(self, path: str) -> None:
        self.lost += 1
        logger.error(
            "%s does not end: its slot is lost (%d of %d slots are lost); a step with isolate=True can be ended",
            path,
            self.lost,
            self.number,
        )
        if self.lost >= self.number:
            self.all_lost.set()

    def recover(self, path: str) -> None:
        self.lost -= 1
        logger.warning("%s has ended long after its end was wanted: its slot is free again", path)
        self.give_back()

    def collect(self) -> Iterable[Metric]:
        """Yield the metric for Prometheus."""
        name, text = f"flow_{self.kind}_slots", f"Slots for {self.kind}s of the host of steps"
        slots = GaugeMetricFamily(name, text, labels=["state"])
        for state, number in (("all", self.number), ("busy", self.busy), ("lost", self.lost)):
            slots.add_metric([state], number)
        yield slots

    async def check(self) -> None:
        """Raise NotReady if slots are lost, for the process's health."""
        if self.lost:
            raise NotReady(f"{self.lost} of {self.number} slots are lost to functions that do not end")

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """Wait until a slot is free; the block does not take the slot."""
        async with self._free:
            pass
        yield


class SlotGate(CustomSlotSupplier):
    """Lets Temporal's workers ask for steps only while a slot is free.

    The workers share the slots, and an idle worker's poll must not occupy a slot. So the gate counts nothing: the step
    takes its slot later. A step without a slot goes back to Temporal.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:  # noqa: ARG002 (the SDK's name)
        async with self._slots.gate():
            return SlotPermit()

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:  # noqa: ARG002
        return None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        pass

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        pass
