"""Remove jobs from the cluster when their end and evidence are stored. No status depends on the removal.

A job has to stay while a delayed copy of its deployment request could make the job anew, or while its log cannot be
kept.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.model.run_plan import RemoveJobs, RunPlan, RunRef
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.temporal.options import REMOVE, REMOVE_IN_A_LOOK

LONGEST_IN_A_LOOK = timedelta(minutes=2)  # then the next look removes the further jobs
LONGEST_AT_THE_END = timedelta(minutes=30)  # then the export continues without further removals
# Removals after the export continue for two minutes. By then no deployment request is on the way any more: a claim
# lasts 60 s, and a request 60 s. The audit or the cluster's own clean-up removes jobs that stay longer.
TRIES_AFTER_EXPORT = 4
PAUSE_BEFORE_TRY = timedelta(seconds=30)


async def remove_in_a_look(run: RunRef, tasks: str) -> None:
    """Remove the tasks' jobs, as many as the time of a look allows."""
    if tasks:
        await _remove(RemoveJobs(run=run, tasks=tasks), LONGEST_IN_A_LOOK, REMOVE_IN_A_LOOK)


async def remove_before_export(plan: RunPlan) -> int:
    """Remove all jobs that are over, because the archive contains their logs. Return how many have to stay for now."""
    if plan.records_stay:
        return 0
    return await _remove(RemoveJobs(run=plan.run), LONGEST_AT_THE_END, REMOVE)


async def remove_after_export(plan: RunPlan, staying_jobs: int) -> None:
    """Try again to remove the jobs that had to stay before the export; `staying_jobs` is their number."""
    for _ in range(TRIES_AFTER_EXPORT):
        if not staying_jobs:
            return
        await workflow.sleep(PAUSE_BEFORE_TRY)
        staying_jobs = await _remove(RemoveJobs(run=plan.run), LONGEST_AT_THE_END, REMOVE)


async def _remove(step: RemoveJobs, longest: timedelta, options: workflow.ActivityConfig) -> int:
    """Remove jobs page by page, and begin no page after the longest time. Return how many jobs have to stay for now.

    Return 0 after a failure, too, because the failure has outlasted all tries, and the audit removes the jobs.
    """
    staying_jobs, until = 0, workflow.now() + longest
    try:
        while True:
            removal = await workflow.execute_activity_method(ReconciliationActivities.remove_jobs, step, **options)
            staying_jobs += removal.left
            if not removal.rest:
                return staying_jobs
            if workflow.now() >= until:
                return staying_jobs + 1  # the remaining tasks count as a job, so the removal is repeated
            step = step.model_copy(update={"tasks": removal.rest})
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("run %s: its jobs stay in the cluster: %s", step.run.run_id, error.cause)
        return 0
