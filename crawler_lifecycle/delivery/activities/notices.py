"""Activities that announce a run's change: notices to people, and nudges to the flow's supervisor.

A nudge follows the commit of the change. A lost nudge does no harm: the supervisor's next paced look finds the change,
and the audit finds a change after the flow's end.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from crawler_lifecycle.delivery.ports import Deliveries, FlowSupervisors, Pusher
from crawler_lifecycle.errors import LifecycleError, PermanentError
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import Notice, NoticeKind
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.model.run_plan import Counted, Notify
from crawler_lifecycle.temporal.boundary import worker_loop

GAP = 0.1  # seconds between two nudges to a flow: many runs may end at once
logger = logging.getLogger(__name__)
CLOSING = (NoticeKind.STOPPED, NoticeKind.FINISHED)  # kinds of closing notices


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


@dataclass(frozen=True)
class NoticeActivities:
    runs: Deliveries
    pusher: Pusher

    @activity.defn(no_thread_cancel_exception=True)
    def signal_pusher_started(self, step: Notify) -> Counted:
        """Announce the run's start to people, so that a dialog may stop waiting."""
        return self._send(NoticeKind.STARTED, step)

    @activity.defn(no_thread_cancel_exception=True)
    def signal_pusher_progress(self, step: Notify) -> Counted:
        """Report changes in the run's tasks to people."""
        return self._send(NoticeKind.PROGRESS, step)

    @activity.defn(no_thread_cancel_exception=True)
    def signal_pusher_stopped(self, step: Notify) -> Counted:
        """Send the closing notice after a stop, when the end is stored."""
        return self._send(NoticeKind.STOPPED, step)

    @activity.defn(no_thread_cancel_exception=True)
    def signal_pusher_finished(self, step: Notify) -> Counted:
        """Send the closing notice after an end without a stop."""
        return self._send(NoticeKind.FINISHED, step)

    def _send(self, kind: NoticeKind, step: Notify) -> Counted:
        """Store the notice, send the notice, and note a failure in the timeline once for every kind and end.

        The notice is stored first, so that live streams of the API show the notice although a receiver is away, and all
        tries send the same text. A temporary error is raised, and Temporal tries again. After a permanent error the
        activity returns a count of 0 instead, and so it does for progress, because the next notice is more recent.
        """
        run = self.runs.current(step.run)
        notice = Notice(
            notice_id=event_id(run.run_uid, kind, _number_in_kind(kind, step)),
            kind=kind,
            run_id=run.run_id,
            run_uid=run.run_uid,
            crawler=run.crawler,
            status=run.status,
            reason=run.reason,
            tasks=run.tasks,
            at=datetime.now(UTC),
            final=kind in CLOSING,
            **self._about_the_end(run, kind),
        )
        stored = self.runs.keep_notice(step.run, notice)
        try:
            self.pusher.send(stored)
        except LifecycleError as error:
            self._note(kind, step, "undelivered", f"notice {kind}: {error.message}")
            if kind is NoticeKind.PROGRESS or isinstance(error, PermanentError):
                return Counted(count=0)
            raise
        if stored is not notice:  # an earlier try has stored the notice, and may have failed
            self._note_delivery_after_failure(kind, step)
        return Counted(count=1)

    def _about_the_end(self, run: RunRecord, kind: NoticeKind) -> dict[str, Any]:
        """Return the notice's fields that only the closing notice has."""
        if kind not in CLOSING:
            return dict.fromkeys(("explanation", "outcome", "stats", "result"))
        explanation = self.runs.explanation(run)
        return {"explanation": explanation, "outcome": run.outcome, "stats": run.stats, "result": run.result}

    def _note_delivery_after_failure(self, kind: NoticeKind, step: Notify) -> None:
        """Note the delivery if an earlier try has failed, in this activity or in an earlier execution's activity."""
        tries = activity.info().attempt
        if tries > 1:
            self._note(kind, step, "delivered", f"notice {kind}, at try {tries}")
        elif kind is not NoticeKind.PROGRESS and self.runs.has_note(step.run, _note_key("undelivered", kind, step)):
            self._note(kind, step, "delivered", f"notice {kind}, sent again")

    def _note(self, kind: NoticeKind, step: Notify, event: str, message: str) -> None:
        self.runs.note(step.run, _note_key(event, kind, step), event, message)


def _note_key(event: str, kind: NoticeKind, step: Notify) -> str:
    return f"{event}:{kind}:{step.end}"


def _number_in_kind(kind: NoticeKind, step: Notify) -> str:
    """Return the notice's number among the run's notices of this kind, the same for every try.

    A progress notice has the epoch and the number of the look; the other kinds have the number of the end.
    """
    return f"{step.run.epoch}.{step.number}" if kind is NoticeKind.PROGRESS else str(step.end)
