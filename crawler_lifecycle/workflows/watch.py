"""What one execution knows and is waiting for: its run, the nudges, what people want of it, what it tells."""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.notices import NoticeActivities
from crawler_lifecycle.activities.supervision import SupervisionActivities
from crawler_lifecycle.contract.clock import Clock
from crawler_lifecycle.contract.lifecycle import Asked, Carried, Continuation, LifecycleState, Stage
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import Counted, HoldLimits, Notify, RunPlan, StopAnswer
from crawler_lifecycle.domain.pacing import earliest_nudged_look
from crawler_lifecycle.workflows.options import BRIEF, WRITE
from crawler_lifecycle.workflows.visibility import list_saturated, show_details

Notice = Callable[[NoticeActivities, Notify], Counted]


class Watch:
    def __init__(self) -> None:
        self.state = LifecycleState(stage=Stage.INITIATION, waiting_for="the history to be written")
        self.nudged = False
        self.owes_a_look = False  # a nudge was heard, and only a look lets the next one come
        self.asked: list[Asked] = []  # stops that are not on record yet
        self.stopping: Asked | None = None  # the first of all, from when on the grace period counts
        self.forced = False
        self.cancelled = False
        self.owes_start = False  # the notice of the start was not delivered yet
        self.clock = Clock()
        self.generation = 1  # of this execution: see `workflows.generation`
        self._saturated: str | None = None
        self._nudged_look_from = workflow.now()

    # What people want

    def ask(self, stop: StopRequest, ends_as: str | None = None) -> StopAnswer:
        """Handlers only take a note; the flow does the rest. `ends_as`: the reason, where the run itself gives up."""
        again = self.stopping is not None
        self.asked.append(Asked(stop=stop, at=stop.asked_at or workflow.now(), ends_as=ends_as))
        self.stopping = self.stopping or Asked(stop=stop, at=workflow.now())
        self.forced = self.forced or stop.force
        return StopAnswer(run_id=self.state.run_id, forced=self.forced, again=again)

    def know_intent(self, intent: Intent, since: datetime | None = None, told_at: datetime | None = None) -> bool:
        """What a door wrote into the database counts, even if its signal never came. True if the run is to end."""
        if intent is not Intent.RUN and self.stopping is None:
            self.stopping = Asked(stop=StopRequest(door="database"), at=workflow.now())
        if self.stopping is not None and since is not None:
            self.stopping = self.stopping.model_copy(update={"since": since, "told_at": told_at})
        self.forced = self.forced or intent is Intent.FORCE
        return self.stopping is not None

    def know_saturation(self, plan: RunPlan, cause: str | None) -> None:
        if cause != self._saturated:
            self._saturated = cause
            list_saturated(plan, cause)

    async def know_suspension(self, plan: RunPlan, suspended: bool) -> bool:
        """Hold the run's limits while all of it is suspended, then release them. Return whether they are held.

        The timeline may have more changes than this execution knows (it was reset by hand): each answer brings it a
        change further."""
        while suspended is not self.clock.is_held:
            step = HoldLimits(run=plan.run, held=suspended, number=self.clock.changes + 1)
            self.clock = await workflow.execute_activity_method(SupervisionActivities.hold_limits, step, **WRITE)
        return self.clock.is_held

    def take_asked(self) -> list[Asked]:
        taken, self.asked = self.asked, []
        return taken

    # Waiting

    async def nudged_or(self, due: datetime) -> bool:
        """Until it is due, or until a nudge that is not too soon after the last look. False if the run is to end:
        a cancel that comes in the moment in which a wait is over may be swallowed by it."""
        if not self.nudged and workflow.now() < due:
            try:
                await workflow.wait_condition(
                    lambda: self.nudged or self.stopping is not None, timeout=due - workflow.now()
                )
            except TimeoutError:
                return self.stopping is None
        if self.stopping is not None:
            return False
        early = min(self._nudged_look_from, due) - workflow.now()
        if early > timedelta():
            await workflow.sleep(early)
        self.owes_a_look = self.owes_a_look or self.nudged
        self.nudged = False
        return self.stopping is None

    async def asked_or(self, due: datetime) -> None:
        """The same in a stop: a further one that is asked for is heard at once."""
        while not self.asked and workflow.now() < due:
            until = min(due, self._nudged_look_from) if self.nudged else due
            if until <= workflow.now():
                break
            try:
                await workflow.wait_condition(self._news(), timeout=until - workflow.now())
            except TimeoutError:
                break
        self.nudged = False

    def _news(self) -> Callable[[], bool]:
        nudged = self.nudged
        return lambda: bool(self.asked) or self.nudged is not nudged

    def looked(self, took: timedelta, alive: int, *, more: bool) -> int:
        """A look is over; how many there were. `more`: it could not carry all changes, and the next one goes on."""
        self.space_nudged_looks(took)
        if more:
            self._nudged_look_from = workflow.now()
        self.nudged = self.nudged or more
        self.owes_a_look = False
        self.state = self.state.model_copy(update={"looks": self.state.looks + 1, "alive": alive})
        return self.state.looks

    def space_nudged_looks(self, took: timedelta) -> None:
        """Keep looks that follow a nudge apart: a look has just ended, and took so long."""
        self._nudged_look_from = earliest_nudged_look(workflow.now(), took)

    # Telling

    def tell(self, stage: Stage, waiting_for: str, plan: RunPlan, next_look_at: datetime | None = None) -> None:
        intent = Intent.RUN if self.stopping is None else Intent.FORCE if self.forced else Intent.STOP
        self.state = self.state.model_copy(
            update={
                "stage": stage,
                "waiting_for": waiting_for,
                "intent": intent,
                "run_id": plan.run.run_id,
                "run_uid": plan.run.run_uid,
                "next_look_at": next_look_at,
            }
        )
        show_details(self.state)

    async def tell_start(self, plan: RunPlan) -> None:
        self.owes_start = not await self.notify(NoticeActivities.signal_pusher_started, plan)

    async def tell_start_if_owed(self, plan: RunPlan, patience: workflow.ActivityConfig) -> None:
        if self.owes_start:
            self.owes_start = not await self.notify(NoticeActivities.signal_pusher_started, plan, patience=patience)

    async def notify(
        self, notice: Notice, plan: RunPlan, number: int = 1, patience: workflow.ActivityConfig = BRIEF
    ) -> bool:
        """A notice that cannot be delivered fails nothing; whether it was."""
        try:
            step = Notify(run=plan.run, end=plan.end, number=number)
            await workflow.execute_activity_method(notice, step, **patience)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("run %s: notice not delivered: %s", plan.run.run_id, error.cause)
            return False
        return True

    # Continuing as new

    def go_on_from(self, carried: Carried) -> None:
        self.nudged = self.nudged or carried.nudged
        self.asked = [*carried.asked, *self.asked]
        self.stopping = carried.stopping or self.stopping
        self.forced = self.forced or carried.forced
        self.cancelled = self.cancelled or carried.cancelled
        self.owes_start = carried.owes_start
        self.clock = carried.plan.clock
        self._saturated = carried.saturated
        self.state = self.state.model_copy(update={"looks": carried.looks})

    def continue_if_long(self, carried: Carried) -> None:
        """No execution grows without end: this one ends here if its history is long, and another goes on."""
        if not workflow.info().is_continue_as_new_suggested():
            return
        known = {
            "looks": self.state.looks,
            "nudged": self.nudged or self.owes_a_look,
            "asked": self.asked,
            "stopping": self.stopping,
            "forced": self.forced,
            "cancelled": self.cancelled,
            "owes_start": self.owes_start,
            "saturated": self._saturated,
            "plan": carried.plan.model_copy(update={"clock": self.clock}),
        }
        workflow.continue_as_new(Continuation(carried=carried.model_copy(update=known)))
