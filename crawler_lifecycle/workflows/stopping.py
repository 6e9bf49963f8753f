"""Ending what a run has in the cluster, until the cluster shows that nothing runs any more."""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.activities.stopping import StoppingActivities
from crawler_lifecycle.contract.requests import StopRequest
from crawler_lifecycle.contract.steps import EndRun, LogCancellation, RunPlan, RunRef, StopReport, StopTasks
from crawler_lifecycle.domain.pacing import growing_pause
from crawler_lifecycle.workflows.looks import look
from crawler_lifecycle.workflows.options import STOP, WRITE

FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=15)


async def cancel_queued(run: RunRef, reason: str) -> None:
    await workflow.execute_activity_method(
        StoppingActivities.cancel_queued_tasks, EndRun(run=run, reason=reason), **WRITE
    )


async def end_jobs(plan: RunPlan, reason: str) -> None:
    """The run itself gives up: ask every job to end, insist after the grace period, and see that all are gone."""
    run = plan.run
    asked_at = workflow.now()
    stop = StopRequest(actor="crawler-lifecycle", reason=reason, door="workflow")
    await workflow.execute_activity_method(
        StoppingActivities.add_cancellation_log_to_db, LogCancellation(run=run, stop=stop, asked_at=asked_at), **WRITE
    )
    await cancel_queued(run, reason)
    await _in_pages(StoppingActivities.k8_stop_task, run)
    await _until_gone(run, asked_at + timedelta(seconds=plan.grace_seconds))


async def _until_gone(run: RunRef, force_at: datetime) -> None:
    tries = 0
    while (await look(run)).alive:
        tries += 1
        if workflow.now() >= force_at:
            await _in_pages(StoppingActivities.k8_stop_pod, run)
        await workflow.sleep(growing_pause(tries, FIRST_PAUSE, LONGEST_PAUSE))


async def _in_pages(activity: Callable[[StoppingActivities, StopTasks], StopReport], run: RunRef) -> None:
    report = await workflow.execute_activity_method(activity, StopTasks(run=run), **STOP)
    while report.rest:
        report = await workflow.execute_activity_method(activity, StopTasks(run=run, tasks=report.rest), **STOP)
