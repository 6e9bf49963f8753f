"""Stage 2: the main job is deployed and starts, or the run says why not and since when."""

from datetime import datetime, timedelta
from itertools import count

from temporalio import workflow

from crawler_lifecycle.activities.deployment import DeploymentActivities
from crawler_lifecycle.contract.lifecycle import Carried, Stage
from crawler_lifecycle.contract.states import Trigger
from crawler_lifecycle.contract.steps import DeploymentOutcome, MainJobStatus, RunPlan, ToRun
from crawler_lifecycle.domain.limits import limit_at
from crawler_lifecycle.domain.pacing import growing_pause
from crawler_lifecycle.domain.reasons import DEPLOYMENT_REFUSED, NEVER_STARTED, SUSPENDED
from crawler_lifecycle.workflows.options import DEPLOY, READ
from crawler_lifecycle.workflows.stopping import cancel_queued
from crawler_lifecycle.workflows.watch import Watch

BEFORE_FIRST_STATUS = timedelta(seconds=6)
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)
LOOKS_THAT_MISS_THE_MAIN_JOB = 2


async def deploy(watch: Watch, plan: RunPlan) -> str | None:
    """None once the main job runs or has run, or the run is to end; else the run's own reason to end."""
    deployed = await _deployed(watch, plan)
    if watch.stopping is not None or (deployed and watch.know_intent(deployed.intent)):
        return None
    if deployed is None:
        return await _started_unnoticed(watch, plan)
    if deployed.refused:
        await cancel_queued(plan.run, DEPLOYMENT_REFUSED)
        return DEPLOYMENT_REFUSED
    return await _started(watch, plan)


async def _deployed(watch: Watch, plan: RunPlan) -> DeploymentOutcome | None:
    activities = DeploymentActivities
    scheduled = plan.trigger is Trigger.SCHEDULED
    deploying = activities.run_scheduled_crawler if scheduled else activities.run_onetime_crawler
    for attempt in count(1):
        watch.tell(Stage.DEPLOYMENT, "the scheduler service to deploy the main job", plan)
        outcome = await workflow.execute_activity_method(deploying, ToRun(run=plan.run), **DEPLOY)
        watch.know_saturation(plan, outcome.saturated)
        if outcome.job_id or outcome.refused or watch.know_intent(outcome.intent):
            return outcome
        watch.tell(Stage.DEPLOYMENT, f"another try to deploy the main job ({outcome.cause})", plan)
        if not await _pause(watch, plan, attempt):
            break
    return None


async def _started_unnoticed(watch: Watch, plan: RunPlan) -> str | None:
    """The service may have made the job, and only its answers were lost: only a look can say that it did not."""
    for attempt in count(1):
        status = await _main_job(plan)
        if status.started:
            return None
        if status.cause == SUSPENDED and await watch.know_suspension(plan, True):
            return await _started(watch, plan)
        if status.known:
            break
        watch.tell(Stage.DEPLOYMENT, f"the cluster to say whether the main job runs ({status.message})", plan)
        if watch.know_intent(status.intent) or not await _pause(watch, plan, attempt, limited=False):
            return None
    return NEVER_STARTED


async def _main_job(plan: RunPlan) -> MainJobStatus:
    return await workflow.execute_activity_method(DeploymentActivities.get_main_job_status, ToRun(run=plan.run), **READ)


async def _started(watch: Watch, plan: RunPlan) -> str | None:
    watch.tell(Stage.DEPLOYMENT, "the main job to start", plan)
    await workflow.sleep(BEFORE_FIRST_STATUS)
    missed = 0
    for attempt in count(1):
        status = await _main_job(plan)
        watch.know_saturation(plan, status.saturated)
        if status.known:
            await watch.know_suspension(plan, status.cause == SUSPENDED)
        missed = missed + 1 if status.vanished else 0
        # what became of a job that vanished is for the looks to judge
        if status.started or missed >= LOOKS_THAT_MISS_THE_MAIN_JOB or watch.know_intent(status.intent):
            return None
        # a job that cannot be seen may have started: only a look that succeeded can say that it did not
        if status.known and _is_late(watch, plan):
            break
        watch.tell(Stage.DEPLOYMENT, f"the main job to start ({status.cause or status.message})", plan)
        await _pause(watch, plan, attempt, limited=status.known)  # at the start limit one last look follows
        if watch.stopping is not None:
            break
    return NEVER_STARTED if watch.stopping is None else None


async def _pause(watch: Watch, plan: RunPlan, attempt: int, *, limited: bool = True) -> bool:
    """A growing pause, ended by a nudge or by the start limit. False once that is reached, or the run is stopped."""
    watch.continue_if_long(Carried(plan=plan))
    limit = _start_limit(watch, plan) if limited else None
    until = workflow.now() + growing_pause(attempt, FIRST_PAUSE, LONGEST_PAUSE)
    goes_on = await watch.nudged_or(min(until, limit) if limit else until)
    return goes_on and (limit is None or not _is_late(watch, plan))


def _is_late(watch: Watch, plan: RunPlan) -> bool:
    limit = _start_limit(watch, plan)
    return limit is not None and workflow.now() >= limit


def _start_limit(watch: Watch, plan: RunPlan) -> datetime | None:
    return limit_at(plan.begun_at, plan.start_limit_seconds, watch.clock)
