"""Jobs that are over leave the cluster once everything about them is on record. No status depends on it."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.steps import RemoveJobs, RunRef
from crawler_lifecycle.domain.ranges import from_ranges
from crawler_lifecycle.workflows.evidence import Evidence
from crawler_lifecycle.workflows.options import REMOVE, REMOVE_IN_A_LOOK

IN_TIME = "removal-in-time"
IN_A_LOOK = timedelta(minutes=2)  # what is left then, the next look finds
AT_THE_END = timedelta(minutes=30)  # the export waits for it
PAUSE = timedelta(seconds=30)
TRIES = 4  # longer than any claim; what is left after that is for the cluster's own clean-up


async def remove(step: RemoveJobs, look: int | None = None) -> int:
    """How many have to stay for now. `look`: that waits for it."""
    within, options, where = (AT_THE_END, REMOVE, "end") if look is None else (IN_A_LOOK, REMOVE_IN_A_LOOK, str(look))
    left, until = 0, workflow.now() + within
    try:
        while True:
            removal = await workflow.execute_activity_method(ReconciliationActivities.remove_jobs, step, **options)
            left += removal.left
            if not removal.rest:
                return left
            if workflow.now() >= until and workflow.patched(f"{IN_TIME}-{where}"):
                return left + 1
            step = step.model_copy(update={"tasks": removal.rest})
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("jobs of run %s stay in the cluster: %s", step.run.run_id, error.cause)
        return 0


async def remove_all(run: RunRef, evidence: Evidence) -> int:
    """Once it is over, before the export: their logs and their evidence belong to it."""
    await evidence.insist(run)
    return await _remove_explained(run, evidence)


async def remove_what_stayed(run: RunRef, evidence: Evidence, left: int) -> None:
    for _ in range(TRIES):
        if not left:
            return
        await workflow.sleep(PAUSE)
        await evidence.ask_again(run)
        left = await _remove_explained(run, evidence)


async def _remove_explained(run: RunRef, evidence: Evidence) -> int:
    left = await remove(RemoveJobs(run=run, stay=evidence.owed))
    return left + len(from_ranges(evidence.owed))
