"""Stage 2, deployment: deploy the main job and wait for its start.

Meanwhile the run's row shows the cause and the start of the wait.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from temporalio import workflow

from crawler_lifecycle.base.pacing import HELD_PAUSE, Backoff
from crawler_lifecycle.model.lifecycle import Carried, Stage
from crawler_lifecycle.model.reasons import DEPLOYMENT_REFUSED, NEVER_STARTED, SUSPENDED
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.model.states import Trigger
from crawler_lifecycle.runs.activities.deployment import DeploymentActivities
from crawler_lifecycle.runs.model.deployment import DeploymentOutcome, MainJobStatus
from crawler_lifecycle.runs.workflows.initiation import Registration
from crawler_lifecycle.runs.workflows.stopping import cancel_queued
from crawler_lifecycle.runs.workflows.watch import Watch
from crawler_lifecycle.temporal.options import DEPLOY, READ

BEFORE_FIRST_LOOK = timedelta(seconds=6)  # most jobs run by then, and an earlier look would show a cause to wait
PAUSES = Backoff(timedelta(seconds=5), timedelta(minutes=5))  # between tries to deploy, and between looks
LOOKS_WITHOUT_MAIN_JOB = 2  # in a row, until stage 3 judges the missing job: a single look may miss a present job


@dataclass(frozen=True)
class DeploymentEnd:
    """The end of stage 2."""

    gave_up: str | None = None  # a refused deployment or the start limit; None: stage 3 follows, or a stop is asked for
    started_at: datetime | None = None  # the main job's start; None: the cluster does not say, or there is no start


async def deploy(watch: Watch, plan: RunPlan, registration: Registration) -> DeploymentEnd:
    """Deploy the main job and wait until the job runs or has run, the run gives up, or a stop is asked for."""
    outcome = await _deploy_main_job(watch, plan, registration)
    if outcome and not watch.stop.is_asked:
        watch.stop.apply_intent(outcome.intent)
    if watch.stop.is_asked:
        return DeploymentEnd()
    if outcome is None:
        return await _find_unnoticed_start(watch, plan)
    if outcome.refused:
        await cancel_queued(plan.run, DEPLOYMENT_REFUSED)
        return DeploymentEnd(DEPLOYMENT_REFUSED)
    return await _wait_for_start(watch, plan)


async def _deploy_main_job(watch: Watch, plan: RunPlan, registration: Registration) -> DeploymentOutcome | None:
    """Return the outcome with the job or the refusal; None if a stop or the start limit came first."""
    activities, is_scheduled = DeploymentActivities, plan.trigger is Trigger.SCHEDULED
    activity = activities.run_scheduled_crawler if is_scheduled else activities.run_onetime_crawler
    for tries in count(1):
        watch.show(Stage.DEPLOYMENT, "the scheduler service to deploy the main job", plan)
        outcome = await workflow.execute_activity_method(activity, RunInput(run=plan.run), **DEPLOY)
        if registration:
            await asyncio.shield(registration)  # a stop cancels this stage, but not the registration
        watch.apply_saturation(plan, outcome.saturated)
        if outcome.job_id or outcome.refused:
            return outcome  # a suspended job may hold the limit clock: the first look at the job sets the clock
        watch.stop.apply_intent(outcome.intent)
        if watch.stop.is_asked:
            break
        await watch.limits.apply_suspension(plan.run, outcome.held)
        if outcome.held:
            await _wait_for_permit(watch, plan, outcome)
        else:
            watch.show(Stage.DEPLOYMENT, f"another try to deploy the main job ({outcome.cause})", plan)
            await _pause(watch, plan, tries)
        if watch.stop.is_asked or _is_start_limit_reached(watch, plan):
            break
    return None


async def _wait_for_permit(watch: Watch, plan: RunPlan, outcome: DeploymentOutcome) -> None:
    """Wait until the cluster reports the job that the dispatcher has deployed, or until a stop; the limit clocks are
    stopped.

    The pause is for a lost nudge. Its end also shows that the run has a living supervisor.
    """
    watch.continue_if_long(Carried(plan=plan))
    watch.show(Stage.DEPLOYMENT, f"its permit ({outcome.cause}: {outcome.message})", plan)
    await watch.wakeups.wait_until_due_or_nudged(workflow.now() + HELD_PAUSE)


async def _find_unnoticed_start(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    """Look for a main job from a request whose answer was lost. Give up if the main job does not run.

    The start limit is reached already. The run waits on only while the job is suspended or cannot be observed.
    """
    for tries in count(1):
        status = await _observe_main_job(watch, plan)
        if status.started:
            return DeploymentEnd(started_at=status.started_at)
        if status.cause == SUSPENDED:  # the limit clock stops
            await watch.limits.apply_suspension(plan.run, True)
            return await _wait_for_start(watch, plan)
        if status.known:
            break
        watch.show(Stage.DEPLOYMENT, f"the cluster to say whether the main job runs ({status.message})", plan)
        watch.stop.apply_intent(status.intent)
        if not watch.stop.is_asked:
            await _pause(watch, plan, tries, until_start_limit=False)
        if watch.stop.is_asked:
            return DeploymentEnd()
    return DeploymentEnd(NEVER_STARTED)


async def _observe_main_job(watch: Watch, plan: RunPlan) -> MainJobStatus:
    status = await workflow.execute_activity_method(
        DeploymentActivities.get_main_job_status, RunInput(run=plan.run), **READ
    )
    watch.wakeups.space_nudged_looks(timedelta(seconds=status.seconds))
    return status


async def _wait_for_start(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    """Look at the main job until it runs, has run or is missing; a stop or the start limit ends the wait earlier.

    Stage 3 judges a missing job. Only a look that could observe the main job ends the run at the start limit, because
    an unobserved job may have started.
    """
    watch.show(Stage.DEPLOYMENT, "the main job to start", plan)
    watch.wakeups.renew_owed_nudge()  # the nudge that ended the wait for a permit may have announced the start
    await watch.wakeups.wait_until_due_or_nudged(workflow.now() + BEFORE_FIRST_LOOK)
    if watch.stop.is_asked:
        return DeploymentEnd()
    looks_without_job = 0
    for tries in count(1):
        status = await _observe_main_job(watch, plan)
        watch.apply_saturation(plan, status.saturated)
        if status.known:
            await watch.limits.apply_suspension(plan.run, status.cause == SUSPENDED)
        looks_without_job = looks_without_job + 1 if status.vanished else 0
        if status.started or looks_without_job >= LOOKS_WITHOUT_MAIN_JOB:
            return DeploymentEnd(started_at=status.started_at)
        watch.stop.apply_intent(status.intent)
        if watch.stop.is_asked:
            break
        if status.known and _is_start_limit_reached(watch, plan):
            return DeploymentEnd(NEVER_STARTED)
        watch.show(Stage.DEPLOYMENT, f"the main job to start ({status.cause or status.message})", plan)
        await _pause(watch, plan, tries, until_start_limit=status.known)
        if watch.stop.is_asked:
            break
    return DeploymentEnd()


async def _pause(watch: Watch, plan: RunPlan, tries: int, *, until_start_limit: bool = True) -> None:
    """Wait for a time that grows with the tries, but not beyond a nudge or a stop.

    With `until_start_limit`, the wait also ends at the start limit, so that a last look or try follows.
    """
    watch.continue_if_long(Carried(plan=plan))
    limit = watch.limits.start_limit(plan) if until_start_limit else None
    due = workflow.now() + PAUSES.pause(tries)
    await watch.wakeups.wait_until_due_or_nudged(min(due, limit) if limit else due)


def _is_start_limit_reached(watch: Watch, plan: RunPlan) -> bool:
    limit = watch.limits.start_limit(plan)
    return limit is not None and workflow.now() >= limit
