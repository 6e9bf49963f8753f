"""Acts: a flow supervisor's own activities, a kind at a time, and the bell to wake the supervisor."""

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from temporalio import workflow

Result = TypeVar("Result")


class Bell:
    """Wakes the supervisor for results, nudges and times."""

    def __init__(self) -> None:
        self._has_rung = False
        self._alarms: list[datetime] = []  # times with a timer

    def ring(self, *_: object) -> None:
        self._has_rung = True

    def ring_at(self, *times: datetime | None) -> None:
        """Ring at the first of the times, or earlier: no timer is set after a timer that is set already.

        So most flows need a single timer, and not a timer for every step that ends.
        """
        time = min((time for time in times if time is not None), default=None)
        if time is None or (self._alarms and self._alarms[0] <= time):
            return
        heappush(self._alarms, time)
        delay = max(0.0, (time - workflow.now()).total_seconds())
        asyncio.get_running_loop().call_later(delay, self._ring_alarm)

    async def wait(self) -> None:
        await workflow.wait_condition(lambda: self._has_rung)
        self._has_rung = False

    def _ring_alarm(self) -> None:
        heappop(self._alarms)
        self.ring()


class FlowAct(Generic[Result]):
    """An act that is under way once at a time. The supervisor takes the result when the bell rings."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._task: asyncio.Task[Result] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._task is not None

    def begin(self, activity: Coroutine[Any, Any, Result]) -> None:
        self._task = asyncio.create_task(activity)
        self._task.add_done_callback(self._bell.ring)

    def take(self) -> Result | None:
        """Return the result if the act has ended, once; raise its error. None: no act has ended."""
        if self._task is None or not self._task.done():
            return None
        task, self._task = self._task, None
        return task.result()
