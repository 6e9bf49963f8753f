"""Stage 2: deploy the main job and wait for its start; meanwhile the run shows why it waits and since when."""

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

BEFORE_FIRST_LOOK = timedelta(seconds=6)  # most jobs run by then; docs/architecture.md says why this is no setting
PAUSES = Backoff(timedelta(seconds=5), timedelta(minutes=5))
LOOKS_WITHOUT_MAIN_JOB = 2  # a single look may miss a job that exists


@dataclass(frozen=True)
class DeploymentEnd:
    """The end of stage 2. Without `gave_up` the run goes on to stage 3, or a stop is under way."""

    gave_up: str | None = None  # reason if the run itself gives up: a refused deployment, the start limit
    started_at: datetime | None = None  # the main job's start; None: the cluster does not say


async def deploy(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    """Deploy the main job and wait until it runs or has run, the run gives up, or a stop is asked for."""
    deployed = await _deploy_main_job(watch, plan)
    if deployed and not watch.stop.is_asked:
        watch.stop.apply_intent(deployed.intent)
    if watch.stop.is_asked:
        return DeploymentEnd()
    if deployed is None:
        return await _find_unnoticed_start(watch, plan)
    if deployed.refused:
        await cancel_queued(plan.run, DEPLOYMENT_REFUSED)
        return DeploymentEnd(DEPLOYMENT_REFUSED)
    return await _wait_for_start(watch, plan)


async def _deploy_main_job(watch: Watch, plan: RunPlan) -> DeploymentOutcome | None:
    """Return the deployment's outcome, or None if a stop or the start limit came first."""
    activities, is_scheduled = DeploymentActivities, plan.trigger is Trigger.SCHEDULED
    activity = activities.run_scheduled_crawler if is_scheduled else activities.run_onetime_crawler
    for attempt in count(1):
        watch.show(Stage.DEPLOYMENT, "the scheduler service to deploy the main job", plan)
        outcome = await workflow.execute_activity_method(activity, RunInput(run=plan.run), **DEPLOY)
        watch.apply_saturation(plan, outcome.saturated)
        if outcome.job_id or outcome.refused:
            return outcome
        watch.stop.apply_intent(outcome.intent)
        if watch.stop.is_asked:
            return outcome
        watch.show(Stage.DEPLOYMENT, f"another try to deploy the main job ({outcome.cause})", plan)
        await _pause(watch, plan, attempt)
        if watch.stop.is_asked or _is_late(watch, plan):
            break
    return None


async def _find_unnoticed_start(watch: Watch, plan: RunPlan) -> DeploymentEnd:
    """Look for a main job from a request whose answer was lost, and give up if there is no such job."""
    for attempt in count(1):
        status = await _observe_main_job(watch, plan)
        if status.started:
            return DeploymentEnd(started_at=status.started_at)
        if status.cause == SUSPENDED:  # the limit clock stands still, so the run may wait on
            await watch.limits.apply_suspension(plan.run, True)
            return await _wait_for_start(watch, plan)
        if status.known:
            break
        watch.show(Stage.DEPLOYMENT, f"the cluster to say whether the main job runs ({status.message})", plan)
        watch.stop.apply_intent(status.intent)
        if not watch.stop.is_asked:
            await _pause(watch, plan, attempt, limited=False)
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
    watch.show(Stage.DEPLOYMENT, "the main job to start", plan)
    await watch.wakeups.wait_until_due_or_nudged(workflow.now() + BEFORE_FIRST_LOOK)
    if watch.stop.is_asked:
        return DeploymentEnd()
    missed = 0
    for attempt in count(1):
        status = await _observe_main_job(watch, plan)
        watch.apply_saturation(plan, status.saturated)
        if status.known:
            await watch.limits.apply_suspension(plan.run, status.cause == SUSPENDED)
        missed = missed + 1 if status.vanished else 0
        if status.started or missed >= LOOKS_WITHOUT_MAIN_JOB:
            return DeploymentEnd(started_at=status.started_at)  # stage 3 judges a vanished job
        watch.stop.apply_intent(status.intent)
        if watch.stop.is_asked:
            return DeploymentEnd(started_at=status.started_at)
        # only a look that saw the cluster may end the run at the limit: an unseen job may have started
        if status.known and _is_late(watch, plan):
            break
        watch.show(Stage.DEPLOYMENT, f"the main job to start ({status.cause or status.message})", plan)
        await _pause(watch, plan, attempt, limited=status.known)  # at the start limit a last look follows
        if watch.stop.is_asked:
            break
    return DeploymentEnd(NEVER_STARTED if not watch.stop.is_asked else None)


async def _pause(watch: Watch, plan: RunPlan, attempt: int, *, limited: bool = True) -> None:
    """Wait for a growing time, but not beyond a nudge, a stop or, if `limited`, the start limit."""
    watch.continue_if_long(Carried(plan=plan))
    limit = watch.limits.start_limit(plan) if limited else None
    until = workflow.now() + PAUSES.pause(attempt)
    await watch.wakeups.wait_until_due_or_nudged(min(until, limit) if limit else until)


def _is_late(watch: Watch, plan: RunPlan) -> bool:
    limit = watch.limits.start_limit(plan)
    return limit is not None and workflow.now() >= limit
