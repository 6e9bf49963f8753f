"""State that all stages of a run's workflow share: stops, wakeups, limit clock, the state shown to people, notices.

`Watch` has all of the state. Its parts are `StopState` (the first stop, stops not yet recorded, and whether the stop is
a force), `Wakeups` (waits until the next look is due; nudges and stops end a wait early) and `LimitClock`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.base.pacing import earliest_nudged_look
from crawler_lifecycle.delivery.activities.notices import NoticeActivities
from crawler_lifecycle.model.lifecycle import AcceptedStop, Carried, Continuation, LifecycleState, Stage
from crawler_lifecycle.model.reasons import SCHEDULE_DOOR
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import Clock, Counted, Notify, RunPlan, RunRef
from crawler_lifecycle.model.states import Intent, Report
from crawler_lifecycle.runs.activities.supervision import SupervisionActivities
from crawler_lifecycle.runs.model import HoldLimits, StopAnswer
from crawler_lifecycle.runs.rules.limits import limit_at
from crawler_lifecycle.temporal.generation import generation
from crawler_lifecycle.temporal.options import ANNOUNCE, BRIEF, WRITE
from crawler_lifecycle.temporal.visibility import set_saturated_attribute, show_details

SCHEDULE = SearchAttributeKey.for_keyword("TemporalScheduledById")
REPLACED = "cancelled by schedule overlap policy"  # Temporal's reason if a schedule's next run replaces this run
LONGEST_ACTOR, LONGEST_REASON = 256, 1024  # characters; a StopRequest accepts longer actors, for the names of tokens
NoticeActivity = Callable[[NoticeActivities, Notify], Counted]


class StopState:
    def __init__(self) -> None:
        self._unrecorded: list[AcceptedStop] = []  # stops not yet recorded
        self.first: AcceptedStop | None = None  # its grace period counts; None: no stop is asked for
        self.is_forced = False
        self.is_cancelled = False  # a stop was a cancel by Temporal's tools, so the workflow has to close as cancelled

    @property
    def is_asked(self) -> bool:
        return self.first is not None

    @property
    def has_unrecorded(self) -> bool:
        return bool(self._unrecorded)

    @property
    def intent(self) -> Intent:
        if self.first is None:
            return Intent.RUN
        return Intent.FORCE if self.is_forced else Intent.STOP

    def accept(self, stop: StopRequest, ends_as: str | None = None) -> bool:
        """Note a stop, and leave the action to the flow. Return whether an earlier stop was accepted.

        `ends_as`: the limit, if the run itself gives up; None: a person or another program asks for the stop.
        """
        is_repeated = self.is_asked
        self._unrecorded.append(AcceptedStop(stop=stop, at=stop.asked_at or workflow.now(), ends_as=ends_as))
        self.first = self.first or AcceptedStop(stop=stop, at=workflow.now())
        self.is_forced = self.is_forced or stop.force
        return is_repeated

    def accept_cancel(self) -> None:
        self.is_cancelled = True
        self.accept(_stop_by_cancel())

    def apply_intent(self, intent: Intent, since: datetime | None = None, told_at: datetime | None = None) -> None:
        """Take the intent over from the database, where a stop may be recorded although its signal was lost.

        `since`: when an earlier supervisor was first asked for the stop; `told_at`: when the jobs were first asked.
        """
        if intent is not Intent.RUN and self.first is None:
            self.first = AcceptedStop(stop=StopRequest(door="database"), at=workflow.now())
        if self.first is not None and since is not None:
            self.first = self.first.model_copy(update={"since": since, "told_at": told_at})
        self.is_forced = self.is_forced or intent is Intent.FORCE

    def take_unrecorded(self) -> list[AcceptedStop]:
        """Return the stops not yet recorded; the caller records them."""
        unrecorded, self._unrecorded = self._unrecorded, []
        return unrecorded

    def carry(self) -> dict[str, object]:
        """Return the fields for the next execution's `Carried`."""
        return {
            "asked": self._unrecorded,
            "stopping": self.first,
            "forced": self.is_forced,
            "cancelled": self.is_cancelled,
        }

    def resume(self, carried: Carried) -> None:
        """Add the stops from the earlier execution to the stops already accepted by this execution."""
        self._unrecorded = [*carried.asked, *self._unrecorded]
        self.first = carried.stopping or self.first
        self.is_forced = self.is_forced or carried.forced
        self.is_cancelled = self.is_cancelled or carried.cancelled


def _stop_by_cancel() -> StopRequest:
    """Return the stop for a cancel of the workflow. If a schedule replaces the run, the schedule is the actor."""
    reason = workflow.cancellation_reason()
    schedule = workflow.info().typed_search_attributes.get(SCHEDULE)
    if reason == REPLACED and schedule is not None:
        actor = f"schedule {schedule}"[:LONGEST_ACTOR]
        return StopRequest(actor=actor, reason="its next occurrence was due", door=SCHEDULE_DOOR)
    reason = (reason or "the workflow was cancelled")[:LONGEST_REASON]
    return StopRequest(actor="Temporal", reason=reason, door="cancel")


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


class LimitClock:
    def __init__(self) -> None:
        self._clock = Clock()

    @property
    def changes(self) -> int:
        """Number of stops and restarts: a limit computed before the last change is wrong."""
        return self._clock.changes

    def start_limit(self, plan: RunPlan) -> datetime | None:
        """Return until when the main job has to start; None without a limit, or while the clock is stopped."""
        return limit_at(plan.begun_at, plan.start_limit_seconds, self._clock)

    def duration_limit(self, plan: RunPlan) -> datetime | None:
        """Return until when the run has to end; None without a limit, or while the clock is stopped."""
        return limit_at(plan.begun_at, plan.max_duration_seconds, self._clock)

    async def apply_suspension(self, run: RunRef, is_suspended: bool) -> None:
        """Stop the clock if the run is suspended, otherwise restart the clock; a clock in the right state stays so.

        Changes are numbered, and the timeline keeps the first change with a number. After a reset by Temporal's tools
        an execution repeats its steps, and the timeline may have more changes than the execution knows. Every answer
        then brings the clock one change further, until the clock is right.
        """
        while is_suspended is not self._clock.is_held:
            step = HoldLimits(run=run, held=is_suspended, number=self._clock.changes + 1)
            self._clock = await workflow.execute_activity_method(SupervisionActivities.hold_limits, step, **WRITE)

    def plan_with_clock(self, plan: RunPlan) -> RunPlan:
        """Return the plan with the clock, for the next execution."""
        return plan.model_copy(update={"clock": self._clock})

    def resume(self, plan: RunPlan) -> None:
        """Continue with the clock from the earlier execution's plan."""
        self._clock = plan.clock


class Watch:
    def __init__(self) -> None:
        # version of the flow for this execution, determined first, as `temporal.generation` requires
        self.generation = generation()
        self.stop = StopState()
        self.wakeups = Wakeups(self.stop)
        self.limits = LimitClock()
        self.state = LifecycleState(stage=Stage.INITIATION, waiting_for="the history to be written")
        self.owes_start = False  # a try to deliver the start notice has failed, and another try may succeed
        self._saturated: str | None = None  # cause shown by the search attribute; None: the run is not saturated

    def accept_stop(self, stop: StopRequest) -> StopAnswer:
        is_repeated = self.stop.accept(stop)
        return StopAnswer(run_id=self.state.run_id, forced=self.stop.is_forced, again=is_repeated)

    def close_look(self, duration: timedelta, alive: int, *, has_more: bool) -> int:
        """Note a look's end, and show the number of alive tasks. Return how many looks came so far."""
        self.wakeups.close_look(duration, has_more=has_more)
        self.state = self.state.model_copy(update={"looks": self.state.looks + 1, "alive": alive})
        return self.state.looks

    def apply_saturation(self, plan: RunPlan, cause: str | None) -> None:
        """Show the cause if the run is saturated; None: the run is not saturated."""
        if cause != self._saturated:
            self._saturated = cause
            set_saturated_attribute(plan, cause)

    def show(self, stage: Stage, waiting_for: str, plan: RunPlan, next_look_at: datetime | None = None) -> None:
        """Show the run's stage and wait in Temporal's pages and by the query `state`."""
        self.state = self.state.model_copy(
            update={
                "stage": stage,
                "waiting_for": waiting_for,
                "intent": self.stop.intent,
                "run_id": plan.run.run_id,
                "run_uid": plan.run.run_uid,
                "next_look_at": next_look_at,
            }
        )
        show_details(self.state)

    async def notify_start(self, plan: RunPlan, options: workflow.ActivityConfig = BRIEF) -> None:
        """Send the start notice if the run reports its start, and remember whether the notice is still pending."""
        if plan.report is Report.ALL:
            self.owes_start = not await _notify(NoticeActivities.signal_pusher_started, plan, options)

    async def notify_progress(self, plan: RunPlan, number: int) -> None:
        """Send the progress notice with this number if the run reports its progress."""
        if plan.report is Report.ALL:
            await _notify(NoticeActivities.signal_pusher_progress, plan, BRIEF, number)

    async def notify_end(self, plan: RunPlan, *, is_stopped: bool) -> None:
        """Send the closing notice, unless the run reports nothing."""
        activities = NoticeActivities
        closing = activities.signal_pusher_stopped if is_stopped else activities.signal_pusher_finished
        if plan.report is not Report.NONE:
            await _notify(closing, plan, ANNOUNCE)

    def resume(self, carried: Carried) -> None:
        """Continue from the state that an earlier execution, or stage 1, has passed on."""
        self.stop.resume(carried)
        self.wakeups.resume(carried)
        self.limits.resume(carried.plan)
        self.owes_start = carried.owes_start
        self._saturated = carried.saturated
        self.state = self.state.model_copy(update={"looks": carried.looks})

    def continue_if_long(self, carried: Carried) -> None:
        """End this execution if its history has become long; the next execution continues from here."""
        if not workflow.info().is_continue_as_new_suggested():
            return
        handed_on = {
            **self.stop.carry(),
            **self.wakeups.carry(),
            "plan": self.limits.plan_with_clock(carried.plan),
            "looks": self.state.looks,
            "owes_start": self.owes_start,
            "saturated": self._saturated,
        }
        workflow.continue_as_new(Continuation(carried=carried.model_copy(update=handed_on)))


async def _notify(activity: NoticeActivity, plan: RunPlan, options: workflow.ActivityConfig, number: int = 1) -> bool:
    """Send a notice. A failure is only logged. Return False if another try may deliver the notice.

    True does not prove the delivery: if a receiver refuses the notice for good, the activity notes the refusal in the
    timeline and succeeds. `number` distinguishes the progress notices of a run.
    """
    try:
        step = Notify(run=plan.run, end=plan.end, number=number)
        await workflow.execute_activity_method(activity, step, **options)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("run %s: notice not delivered: %s", plan.run.run_id, error.cause)
        return False
    return True
