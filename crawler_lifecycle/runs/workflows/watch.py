"""State that all stages of a run's workflow share: stops, wakeups, limit clock, the state shown to people, notices."""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.delivery.activities.notices import NoticeActivities
from crawler_lifecycle.model.lifecycle import Carried, Continuation, LifecycleState, Stage
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import Clock, Counted, Notify, RunPlan, RunRef
from crawler_lifecycle.model.states import Report
from crawler_lifecycle.runs.activities.supervision import SupervisionActivities
from crawler_lifecycle.runs.model.stopping import StopAnswer
from crawler_lifecycle.runs.model.supervision import HoldLimits
from crawler_lifecycle.runs.rules.limits import limit_at
from crawler_lifecycle.runs.workflows.stop_state import StopState
from crawler_lifecycle.runs.workflows.wakeups import Wakeups
from crawler_lifecycle.temporal.generation import generation
from crawler_lifecycle.temporal.options import ANNOUNCE, BRIEF, WRITE
from crawler_lifecycle.temporal.visibility import set_saturated_attribute, show_details

NoticeActivity = Callable[[NoticeActivities, Notify], Counted]


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
