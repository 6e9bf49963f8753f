"""Stage 3, reconciliation: look at the cluster, at paced times and after nudges, until no task is alive."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.base.pacing import look_in_outage, look_time, next_look
from crawler_lifecycle.model.lifecycle import Carried, Stage
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.model.task_changes import Differences
from crawler_lifecycle.runs.activities.supervision import HistoryActivities
from crawler_lifecycle.runs.model import StartRun
from crawler_lifecycle.runs.workflows.looks import LookResult, look
from crawler_lifecycle.runs.workflows.stopping import end_unwanted
from crawler_lifecycle.runs.workflows.watch import Watch
from crawler_lifecycle.temporal.options import BRIEF, ONCE, WRITE, at_once
from crawler_lifecycle.temporal.visibility import set_search_attributes


async def reconcile(watch: Watch, carried: Carried, started_at: datetime | None = None) -> None:
    """Look until a look proves that no part of the run is alive, or a stop is asked for.

    `started_at` is the main job's start, if known. The start notice goes out beside the first look.
    """
    plan = carried.plan
    anchor = carried.anchor or await _start_run(plan, started_at)
    pace = Pace(anchor, carried.look_number, carried.recheck_at, carried.unseen_since)
    is_announced = carried.anchor is not None and not carried.resumed
    if carried.anchor and carried.resumed:  # the earlier supervisor may have died before it sent the notice
        pace.skip_past_looks()
    watch.wakeups.renew_owed_nudge()  # a nudge during stage 2 still needs a look at all jobs
    while True:
        if is_announced:
            result = await _look_when_due(watch, plan, pace)
        else:
            _, result = await asyncio.gather(watch.notify_start(plan), _first_look(watch, plan, pace))
        if result is None:
            return
        await _follow_up(watch, plan, result)
        if result.is_proof and not watch.owes_start:
            return  # the run ends by its tasks: a recorded stop would have no job to end
        watch.stop.apply_intent(result.intent)  # before the pending notice: a stop must not wait for the notice
        if watch.stop.is_asked:
            return
        if watch.owes_start:  # the last look is the last chance, so BRIEF allows several tries
            await watch.notify_start(plan, BRIEF if result.is_proof else ONCE)
        is_announced = True
        if result.is_proof:
            return
        watch.continue_if_long(pace.carried(plan))


@dataclass
class Pace:
    """When looks are due: at paced times from the anchor on, and earlier if the last look needs a further look."""

    anchor: datetime
    number: int  # of the next look that is due by the pacing; nudges cause looks in between
    recheck_at: datetime | None  # None: the last look needs no further look
    unseen_since: datetime | None  # since this time no look could observe the cluster; None: the last look could

    @property
    def paced(self) -> datetime:
        return look_time(self.anchor, self.number)

    @property
    def due(self) -> datetime:
        return min(self.paced, self.recheck_at) if self.recheck_at else self.paced

    def skip_past_looks(self) -> None:
        """Skip the looks that fell due without a supervisor."""
        self.number = next_look(self.anchor, self.number, workflow.now())

    def begin_look(self) -> None:
        """Advance to the next paced look if the present look is a paced look."""
        if workflow.now() >= self.paced:
            self.number = next_look(self.anchor, self.number + 1, workflow.now())

    def end_look(self, differences: Differences) -> None:
        """Note when a further look is needed. An unknown look has answered its nudge, so no other nudge may follow."""
        now = workflow.now()
        self.unseen_since = None if differences.known else self.unseen_since or now
        times = [look_in_outage(self.unseen_since, now)] if self.unseen_since else []
        if differences.recheck_seconds is not None:
            times.append(now + timedelta(seconds=differences.recheck_seconds))
        self.recheck_at = min(times, default=None)

    def carried(self, plan: RunPlan) -> Carried:
        return Carried(
            plan=plan,
            anchor=self.anchor,
            look_number=self.number,
            recheck_at=self.recheck_at,
            unseen_since=self.unseen_since,
        )


async def _first_look(watch: Watch, plan: RunPlan, pace: Pace) -> LookResult | None:
    """Make the look beside the start notice. A stop that the look shows must not wait for the notice."""
    result = await _look_when_due(watch, plan, pace)
    if result and not result.is_proof:
        watch.stop.apply_intent(result.intent)
    return result


async def _look_when_due(watch: Watch, plan: RunPlan, pace: Pace) -> LookResult | None:
    """Wait until a look is due or nudged, and look. Return None if a stop is asked for."""
    watch.show(Stage.RECONCILIATION, "the next look, or a change in the cluster", plan, pace.due)
    await watch.wakeups.wait_until_due_or_nudged(pace.due)
    if watch.stop.is_asked:
        return None
    pace.begin_look()
    watch.show(Stage.RECONCILIATION, "the cluster's answer", plan, pace.paced)
    result = await look(plan.run, pace.paced)
    pace.end_look(result.differences)
    return result


async def _start_run(plan: RunPlan, started_at: datetime | None) -> datetime:
    """Record the run's start. Return the anchor of the pacing."""
    step = StartRun(run=plan.run, started_at=started_at)
    await at_once(HistoryActivities.update_run_started, step, WRITE)
    set_search_attributes(plan, RunStatus.PROCESSING)
    return workflow.now()


async def _follow_up(watch: Watch, plan: RunPlan, result: LookResult) -> None:
    """Act on the look: pace the next look, set the limit clock, send the progress notice, end unwanted jobs.

    A look that proves the end has no progress notice, because the closing notice follows.
    """
    differences = result.differences
    looks = watch.close_look(result.duration, result.alive, has_more=result.has_more)
    watch.apply_saturation(plan, differences.saturated)
    if differences.known and differences.suspended is not None:
        await watch.limits.apply_suspension(plan.run, differences.suspended)
    if differences.changes and not result.is_proof:
        await watch.notify_progress(plan, looks)
    await end_unwanted(plan.run, differences.unwanted)
