"""The limit clock of a run: the clock stops while all remaining jobs in the cluster are suspended."""

from datetime import datetime

from temporalio import workflow

from crawler_lifecycle.activities.supervision import SupervisionActivities
from crawler_lifecycle.contract.steps.run import Clock, RunPlan, RunRef
from crawler_lifecycle.contract.steps.supervision import HoldLimits
from crawler_lifecycle.domain.limits import limit_at
from crawler_lifecycle.workflows.options import WRITE


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
