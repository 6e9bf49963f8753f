"""Stages 1 and 2, initiation and deployment: record the run, deploy the main job and wait for its start.

A new run is written to the database, and an existing run is taken over where its supervisor has ended. During the wait
the run's row shows the cause and the start of the wait.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from temporalio import workflow
from temporalio.common import RawValue

from crawler_lifecycle.base.pacing import HELD_PAUSE, Backoff
from crawler_lifecycle.model.lifecycle import Carried, Continuation, Stage
from crawler_lifecycle.model.reasons import DEPLOYMENT_REFUSED, NEVER_STARTED, SUSPENDED
from crawler_lifecycle.model.requests import AcceptedRequest, RunRequest
from crawler_lifecycle.model.run_plan import ExportsOwed, RunInput, RunPlan, RunRef
from crawler_lifecycle.model.states import RunStatus, Trigger
from crawler_lifecycle.runs.activities.deployment import DeploymentActivities
from crawler_lifecycle.runs.activities.supervision import HistoryActivities, SupervisionActivities
from crawler_lifecycle.runs.model import (
    CreateHistory,
    DeploymentOutcome,
    HandedOver,
    MainJobStatus,
    RegisterWorkflow,
    TakenOver,
    TakeOver,
)
from crawler_lifecycle.runs.workflows.stopping import cancel_queued
from crawler_lifecycle.runs.workflows.watch import Watch
from crawler_lifecycle.temporal.converter import decoded
from crawler_lifecycle.temporal.options import DEPLOY, READ, WRITE, at_once
from crawler_lifecycle.temporal.visibility import set_search_attributes

Registration = asyncio.Task[None] | None  # of a new run's workflow, beside the first try to deploy; None: done before
BEFORE_FIRST_LOOK = timedelta(seconds=6)  # most jobs run by then, and an earlier look would show a cause to wait
PAUSES = Backoff(timedelta(seconds=5), timedelta(minutes=5))  # between tries to deploy, and between looks
LOOKS_WITHOUT_MAIN_JOB = 2  # in a row, until stage 3 judges the missing job: a single look may miss a present job


@dataclass(frozen=True)
class InitiatedRun:
    """The result of stage 1."""

    carried: Carried  # state for the further stages
    registration: Registration = None
    is_over: bool = False  # the run has ended, and only deliveries of its end may be missing
    is_exported: bool = False  # the last end is announced and archived
    owed: ExportsOwed | None = None  # missing exports, if the run is over


def decoded_input(raw: RawValue) -> RunRequest | Carried:
    """Decode the input: the carried state after a continue-as-new, otherwise a request for a run."""
    if workflow.info().continued_run_id:
        return decoded(Continuation, raw).carried
    return decoded(RunRequest, raw)


async def begin(watch: Watch, request: RunRequest | Carried) -> InitiatedRun | HandedOver:
    """Create the run, take the run over, or continue with the carried state. Return where the further stages begin.

    If the run belongs to another workflow, resume that workflow and return HandedOver.
    """
    if isinstance(request, Carried):
        return InitiatedRun(request)
    if request.run_id is None:
        plan = await _create_run(watch, request)
        return InitiatedRun(Carried(plan=plan), asyncio.create_task(_register(plan.run)))
    return await _take_over(watch, request, request.run_id)


async def _create_run(watch: Watch, request: RunRequest) -> RunPlan:
    info = workflow.info()
    step = CreateHistory(
        request=AcceptedRequest(**request.model_dump(exclude_unset=True)),
        workflow_id=info.workflow_id,
        first_execution_run_id=info.first_execution_run_id,
    )
    plan = await at_once(HistoryActivities.create_history_id, step, WRITE)
    set_search_attributes(plan, RunStatus.INITIALIZING)
    watch.show(Stage.INITIATION, "the deployment", plan)
    return plan


async def _register(run: RunRef) -> None:
    """Write the workflow's id down with the run."""
    step = RegisterWorkflow(run=run, workflow_id=workflow.info().workflow_id)
    await at_once(HistoryActivities.add_workflow_id, step, WRITE)


async def _take_over(watch: Watch, request: RunRequest, run_id: int) -> InitiatedRun | HandedOver:
    """Take the run over; or resume the run's other workflow, and return HandedOver."""
    info = workflow.info()
    step = TakeOver(
        run_id=run_id,
        crawler=request.crawler,
        reopen=request.reopen,
        workflow_id=info.workflow_id,
        temporal_run_id=info.first_execution_run_id,  # the supervisor stays the same after a continue-as-new
        began_at=info.workflow_start_time,
    )
    state = await workflow.execute_activity_method(SupervisionActivities.take_over_run, step, **WRITE)
    if state.plan is None:  # the run belongs to another workflow id
        await workflow.execute_activity_method(SupervisionActivities.hand_over_run, step, **WRITE)
        return HandedOver(run_id=run_id, workflow_id=state.supervised_by)
    set_search_attributes(state.plan, state.status)
    watch.stop.apply_intent(state.intent, state.stopped_at, state.jobs_asked_at)
    if state.status is RunStatus.PROCESSING:
        watch.wakeups.nudge()  # look at once, because the time without a supervisor may have been long
    carried = _carried_state(state, state.plan)
    return InitiatedRun(carried, is_over=state.status.is_over, is_exported=state.exported, owed=state.owed)


def _carried_state(state: TakenOver, plan: RunPlan) -> Carried:
    """Return the state for the further stages.

    The anchor is the beginning of the pacing. With an anchor the run continues in stage 3 (looks), without an anchor in
    stage 2 (deployment). `gave_up` is the limit at which the present stop began; None without a stop, and for a stop
    that people or programs asked for.
    """
    anchor = state.started_at if state.status is RunStatus.PROCESSING else None
    return Carried(plan=plan, anchor=anchor, gave_up=state.gave_up, resumed=True)


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
