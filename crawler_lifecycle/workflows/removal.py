"""Jobs that are over leave the cluster once everything about them is on record. No status depends on it."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.steps import RemoveJobs, RunRef
from crawler_lifecycle.workflows.options import REMOVE

PAUSE = timedelta(seconds=30)
TRIES = 4  # longer than any claim; what is left after that is for the cluster's own clean-up


async def remove(run: RunRef, tasks: str = "") -> int:
    """Of these tasks (none: of all that are over); how many have to stay for now."""
    left, step = 0, RemoveJobs(run=run, tasks=tasks)
    try:
        while True:
            removal = await workflow.execute_activity_method(ReconciliationActivities.remove_jobs, step, **REMOVE)
            left += removal.left
            if not removal.rest:
                return left
            step = RemoveJobs(run=run, tasks=removal.rest)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("jobs of run %s stay in the cluster: %s", run.run_id, error.cause)
        return 0


async def remove_what_stayed(run: RunRef, left: int) -> None:
    for _ in range(TRIES):
        if not left:
            return
        await workflow.sleep(PAUSE)
        left = await remove(run)
