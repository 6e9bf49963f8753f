"""Stage 2: the main job is deployed and starts, or the run says why it does not and since when."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from temporalio import workflow

from crawler_lifecycle.activities.deployment import DeploymentActivities
from crawler_lifecycle.contract.lifecycle import Carried, Stage
from crawler_lifecycle.contract.states import Trigger
from crawler_lifecycle.contract.steps.deployment import DeploymentOutcome, MainJobStatus
from crawler_lifecycle.contract.steps.run import RunInput, RunPlan
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.domain.reasons import DEPLOYMENT_REFUSED, NEVER_STARTED, SUSPENDED
from crawler_lifecycle.workflows.options import DEPLOY, READ
from crawler_lifecycle.workflows.stopping import cancel_queued
from crawler_lifecycle.workflows.watch import Watch

BEFORE_FIRST_STATUS = timedelta(seconds=6)  # a nudge ends the wait: docs/architecture.md says why it is no setting
PAUSES = Backoff(timedelta(seconds=5), timedelta(minutes=5))
LOOKS_WITHOUT_MAIN_JOB = 2


@dataclass(frozen=True)
class DeploymentEnd:
    """The end of stage 2. Without `gave_up` the run goes on to stage 3, or a stop is under way."""

    gave_up: str | None = None  # the run's own reason to end
    started_at: datetime | None = None  # the main job's start; None: the cluster does not say


async def deploy(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    """Deploy the main job and wait until it runs or has run, the run gives up, or a stop is asked for."""
    deployed = await _deployed(watch, plan)
    if watch.stop.is_asked or (deployed and watch.stop.apply_intent(deployed.intent)):
        return DeploymentEnd()
    if deployed is None:
        return await _started_unnoticed(watch, plan)
    if deployed.refused:
        await cancel_queued(plan.run, DEPLOYMENT_REFUSED)
        return DeploymentEnd(DEPLOYMENT_REFUSED)
    return await _started(watch, plan)


async def _deployed(watch: Watch, plan: RunPlan) -> DeploymentOutcome | None:
    """Return the deployment's outcome, or None if a stop or the start limit came first."""
    activities = DeploymentActivities
    scheduled = plan.trigger is Trigger.SCHEDULED
    deploying = activities.run_scheduled_crawler if scheduled else activities.run_onetime_crawler
    for attempt in count(1):
        watch.show(Stage.DEPLOYMENT, "the scheduler service to deploy the main job", plan)
        outcome = await workflow.execute_activity_method(deploying, RunInput(run=plan.run), **DEPLOY)
        watch.apply_saturation(plan, outcome.saturated)
        if outcome.job_id or outcome.refused or watch.stop.apply_intent(outcome.intent):
            return outcome
        watch.show(Stage.DEPLOYMENT, f"another try to deploy the main job ({outcome.cause})", plan)
        if not await _pause(watch, plan, attempt):
            break
    return None


async def _started_unnoticed(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    """Look for a main job that the service may have made while its answers were lost. Give up if there is none."""
    for attempt in count(1):
        status = await _main_job(watch, plan)
        if status.started:
            return DeploymentEnd(started_at=status.started_at)
        if status.cause == SUSPENDED and await watch.limits.apply_suspension(plan.run, True):
            return await _started(watch, plan)
        if status.known:
            break
        watch.show(Stage.DEPLOYMENT, f"the cluster to say whether the main job runs ({status.message})", plan)
        if watch.stop.apply_intent(status.intent) or not await _pause(watch, plan, attempt, limited=False):
            return DeploymentEnd()
    return DeploymentEnd(NEVER_STARTED)


async def _main_job(watch: Watch, plan: RunPlan) -> MainJobStatus:
    status = await workflow.execute_activity_method(
        DeploymentActivities.get_main_job_status, RunInput(run=plan.run), **READ
    )
    watch.wakeups.space_nudged_looks(timedelta(seconds=status.seconds))
    return status


async def _started(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    watch.show(Stage.DEPLOYMENT, "the main job to start", plan)
    if not await watch.wakeups.due_or_nudged(workflow.now() + BEFORE_FIRST_STATUS):
        return DeploymentEnd()
    missed = 0
    for attempt in count(1):
        status = await _main_job(watch, plan)
        watch.apply_saturation(plan, status.saturated)
        if status.known:
            await watch.limits.apply_suspension(plan.run, status.cause == SUSPENDED)
        missed = missed + 1 if status.vanished else 0
        # the looks in stage 3 judge a vanished job
        if status.started or missed >= LOOKS_WITHOUT_MAIN_JOB or watch.stop.apply_intent(status.intent):
            return DeploymentEnd(started_at=status.started_at)
        # an invisible job may have started: only a successful look can tell otherwise
        if status.known and _is_late(watch, plan):
            break
        watch.show(Stage.DEPLOYMENT, f"the main job to start ({status.cause or status.message})", plan)
        await _pause(watch, plan, attempt, limited=status.known)  # at the start limit a last look follows
        if watch.stop.is_asked:
            break
    return DeploymentEnd(NEVER_STARTED if not watch.stop.is_asked else None)


async def _pause(watch: Watch, plan: RunPlan, attempt: int, *, limited: bool = True) -> bool:
    """Wait for a growing time, a nudge or the start limit. Return False at the limit, or if the run is stopped."""
    watch.continue_if_long(Carried(plan=plan))
    limit = watch.limits.start_limit(plan) if limited else None
    until = workflow.now() + PAUSES.pause(attempt)
    goes_on = await watch.wakeups.due_or_nudged(min(until, limit) if limit else until)
    return goes_on and (limit is None or not _is_late(watch, plan))


def _is_late(watch: Watch, plan: RunPlan) -> bool:
    limit = watch.limits.start_limit(plan)
    return limit is not None and workflow.now() >= limit
