"""The waits of a run, which nudges and stops end early."""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.contract.lifecycle import Carried
from crawler_lifecycle.domain.pacing import earliest_nudged_look
from crawler_lifecycle.workflows.stop_state import StopState


class Wakeups:
    def __init__(self, stop: StopState) -> None:
        self._stop = stop
        self._is_nudged = False
        # a nudge has ended a wait, but no look has answered the nudge: the watcher sends no further nudge until then
        self._owes_a_look = False
        self._nudged_look_from = workflow.now()  # a nudge causes no look before this time

    def nudge(self) -> None:
        self._is_nudged = True

    def renew_owed_nudge(self) -> None:
        """Count a nudge from the deployment stage again: looks at the main job alone answer no nudge."""
        self._is_nudged = self._is_nudged or self._owes_a_look

    async def wait_until_due_or_nudged(self, due: datetime) -> None:
        """Wait until the look is due, or until a nudge that is not too soon after the last look.

        A stop ends the wait. The caller checks for a stop: a wait that is just over may swallow the stages' cancel.
        """
        if not self._is_nudged and workflow.now() < due:
            try:
                await workflow.wait_condition(
                    lambda: self._is_nudged or self._stop.is_asked, timeout=due - workflow.now()
                )
            except TimeoutError:
                return
        if self._stop.is_asked:
            return
        too_early = min(self._nudged_look_from, due) - workflow.now()
        if too_early > timedelta():
            await workflow.sleep(too_early)
        self._owes_a_look = self._owes_a_look or self._is_nudged
        self._is_nudged = False

    async def wait_until_due_nudged_or_stopped(self, due: datetime) -> None:
        """Wait during a stop: a further stop ends the wait at once, since it may be a force."""
        while not self._stop.has_unrecorded and workflow.now() < due:
            until = min(due, self._nudged_look_from) if self._is_nudged else due
            if until <= workflow.now():
                break
            try:
                await workflow.wait_condition(self._has_news(), timeout=until - workflow.now())
            except TimeoutError:
                break
        self._is_nudged = False

    def _has_news(self) -> Callable[[], bool]:
        """Return the condition: a new stop, or a nudge where none had come before."""
        was_nudged = self._is_nudged
        return lambda: self._stop.has_unrecorded or self._is_nudged is not was_nudged

    def space_nudged_looks(self, took: timedelta) -> None:
        """Keep looks after nudges apart: a look has just ended, and took so long."""
        self._nudged_look_from = earliest_nudged_look(workflow.now(), took)

    def close_look(self, took: timedelta, *, more: bool) -> None:
        """End a look, which has answered its nudge. `more`: changes remain, so look again at once."""
        self.space_nudged_looks(took)
        self._owes_a_look = False
        if more:
            self._nudged_look_from = workflow.now()
            self._is_nudged = True

    def carry(self) -> dict[str, object]:
        """Return the field of `Carried` for the next execution."""
        return {"nudged": self._is_nudged or self._owes_a_look}

    def resume(self, carried: Carried) -> None:
        self._is_nudged = self._is_nudged or carried.nudged
