"""Waits of a run's workflow until its next look is due. Nudges and stops end a wait early."""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.base.pacing import earliest_nudged_look
from crawler_lifecycle.model.lifecycle import Carried
from crawler_lifecycle.runs.workflows.stop_state import StopState


class Wakeups:
    def __init__(self, stop: StopState) -> None:
        self._stop = stop
        self._is_nudged = False  # a nudge came, and has not ended a wait yet
        # A nudge has ended a wait, and no look at all jobs has followed. Only such a look answers the nudge, and the
        # watcher sends no further nudge before the answer.
        self._owes_a_look = False
        self._earliest_nudged_look = workflow.now()  # a nudge causes no look before this time

    def nudge(self) -> None:
        self._is_nudged = True

    def renew_owed_nudge(self) -> None:
        """Let a nudge that ended an earlier wait count again, if no look has answered the nudge.

        A wait for the permit looks at nothing, and the deployment stage looks only at the main job.
        """
        self._is_nudged = self._is_nudged or self._owes_a_look

    async def wait_until_due_or_nudged(self, due: datetime) -> None:
        """Wait until the look is due, a nudge comes, or a stop is asked for.

        After a nudge, wait on until the gap since the last look is long enough, or the look is due. The caller has to
        check for a stop after the wait: a stop also cancels the stage, but a wait that is just over may swallow the
        cancel.
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
        gap = min(self._earliest_nudged_look, due) - workflow.now()
        if gap > timedelta():
            await workflow.sleep(gap)
        self._owes_a_look = self._owes_a_look or self._is_nudged
        self._is_nudged = False

    async def wait_until_due_nudged_or_stopped(self, due: datetime) -> None:
        """Wait during a stop, until a round of the stop is due or a nudge comes.

        After a nudge, wait on until the gap since the last look is long enough. A further stop ends the wait at once,
        because the further stop may be a force.
        """
        while not self._stop.has_unrecorded and workflow.now() < due:
            until = min(due, self._earliest_nudged_look) if self._is_nudged else due
            if until <= workflow.now():
                break
            try:  # after a first nudge the loop begins anew, with an earlier `until`
                await workflow.wait_condition(self._condition_to_wake(), timeout=until - workflow.now())
            except TimeoutError:
                break
        self._is_nudged = False

    def _condition_to_wake(self) -> Callable[[], bool]:
        """Return a condition: true after a further stop, or after a first nudge; further nudges change no time."""
        was_nudged = self._is_nudged
        return lambda: self._stop.has_unrecorded or self._is_nudged is not was_nudged

    def space_nudged_looks(self, duration: timedelta) -> None:
        """Keep nudged looks apart from the look just ended; the gap grows with the duration."""
        self._earliest_nudged_look = earliest_nudged_look(workflow.now(), duration)

    def close_look(self, duration: timedelta, *, has_more: bool) -> None:
        """Note the end of a look at all jobs: its nudge is answered. `has_more`: look again at once."""
        self.space_nudged_looks(duration)
        self._owes_a_look = False
        if has_more:  # as if a nudge had come, and without a gap
            self._earliest_nudged_look = workflow.now()
            self._is_nudged = True

    def carry(self) -> dict[str, object]:
        """Return the field of `Carried` for a nudge not yet answered."""
        return {"nudged": self._is_nudged or self._owes_a_look}

    def resume(self, carried: Carried) -> None:
        self._is_nudged = self._is_nudged or carried.nudged
