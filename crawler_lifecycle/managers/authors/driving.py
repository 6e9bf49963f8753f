"""Drive a manager's object from its beginning to its end, over the link to its ledger."""

import asyncio
import inspect
from collections.abc import Callable

from crawler_lifecycle.flows.authors.open_client import without_pushes
from crawler_lifecycle.flows.model.turns import Begun, ManagerIntent, Wake
from crawler_lifecycle.managers.authors.arguments import FLOW_ID, command_line
from crawler_lifecycle.managers.authors.link import ManagerLink, completed
from crawler_lifecycle.managers.authors.workflow_manager import FINISHED, WITH_FAILURES, BaseLoopScript

STOPS = (ManagerIntent.DRAIN, ManagerIntent.STOP)
REASONS = {ManagerIntent.DRAIN: "drained", ManagerIntent.STOP: "cancelled", ManagerIntent.LEAVE: "left"}
OVER_TIME = "max_running_time"
NO_FLOWS = (
    "a crawl manager's code pushes no flow, since a hook that is called again would push again: make the manager a job "
    "of the flow by manager(...), and let the next job push"
)
AT_LIMIT = {"leave": ManagerIntent.LEAVE, "drain": ManagerIntent.DRAIN, "stop": ManagerIntent.STOP}


def drive(make: Callable[[], BaseLoopScript], link: ManagerLink) -> str | None:
    """Run the manager. Return its close reason; None if another process continues the manager."""
    begun = link.begin()
    if begun.is_closed:
        return begun.close_reason
    with without_pushes(NO_FLOWS):
        return _driven(make, link, begun)


def _driven(make: Callable[[], BaseLoopScript], link: ManagerLink, begun: Begun) -> str | None:
    # the object reads the family from its command line
    family = [] if begun.family is None else [f"{FLOW_ID}={begun.family}"]
    with command_line([*family, *begun.arguments]):
        manager = make()
    manager.check()
    manager.attach(link, begun)
    work = Drive(manager, link, begun).run()
    return asyncio.run(work) if manager.awaits else completed(work)


class Drive:
    """A manager under way."""

    def __init__(self, manager: BaseLoopScript, link: ManagerLink, begun: Begun) -> None:
        self._manager = manager
        self._link = link
        self._began_at = begun.first_began_at
        self._is_over_time = False

    async def run(self) -> str | None:
        """Return the stored close reason; None if another process continues the manager."""
        manager = self._manager
        if manager.is_resumed:
            if self._intent() is ManagerIntent.RUN:
                await manager.start_pending_jobs()  # before the author's code decides by the jobs under way
            await manager.call(manager.resume_workflow)
        start = manager.on_start
        resumed = (manager.is_resumed,) if inspect.signature(start).parameters else ()
        await manager.call(start, *resumed)
        manager.commit()
        while True:
            intent = self._intent()
            if intent is not ManagerIntent.LEAVE and await self._cycle(intent):
                if self._sleep().must_leave:
                    return None
            elif (reason := await self._close(intent)) is not None:
                return reason

    async def _cycle(self, intent: ManagerIntent) -> bool:
        """Make one cycle. Return whether a further cycle follows.

        A manager without `loop_mode` has further cycles only while people pause, drain or stop the manager.
        """
        manager = self._manager
        manager.may_start = intent is ManagerIntent.RUN
        if manager.may_start:
            await manager.start_pending_jobs()
        await manager.call(manager.base_loop_tasks)
        goes_on = bool(await manager.call(manager.workflow_loop))
        manager.commit()
        if manager.close_reason not in (None, FINISHED):
            return False
        if intent in STOPS:
            return bool(self._link.counts().running)
        is_paused = intent is ManagerIntent.PAUSE
        return goes_on and manager.workflow_loop_enabled and (bool(manager.loop_mode) or is_paused)

    def _intent(self) -> ManagerIntent:
        """Return the intent of people, or of a manager whose time is over."""
        intent = self._link.intent()
        if intent not in (ManagerIntent.RUN, ManagerIntent.PAUSE):
            return intent
        remaining = self._seconds_left()
        if remaining is None or remaining > 0:
            return intent
        if not self._is_over_time:
            self._is_over_time = True
            self._manager.set_close_reason(OVER_TIME)
            if self._manager.at_limit == "stop":
                self._link.stop()
        return AT_LIMIT.get(self._manager.at_limit, ManagerIntent.DRAIN)

    def _seconds_left(self) -> float | None:
        if not self._manager.max_running_time:
            return None
        return self._manager.max_running_time - (self._link.now() - self._began_at).total_seconds()

    def _sleep(self) -> Wake:
        manager = self._manager
        waits = [manager.loop_mode or None, manager.seconds_to_next]
        if not self._is_over_time:
            waits.append(self._seconds_left())
        seconds = min((max(0.0, wait) for wait in waits if wait is not None), default=None)
        return self._link.sleep(seconds, for_news=manager.wake_on_end)

    async def _close(self, intent: ManagerIntent) -> str | None:
        """Return the stored close reason; None: people have added items, so that the next cycle follows at once."""
        manager = self._manager
        await manager.call(manager.on_close)
        if not (reason := manager.get_close_reason() or REASONS.get(intent)):
            reason = WITH_FAILURES if manager.refusals(self._link.counts()) else FINISHED
        return reason if manager.close_on_record(reason) else None
