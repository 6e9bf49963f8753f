"""Jobs that are over leave the cluster once everything about them is on record. No status depends on it."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.steps import RemoveJobs, RunRef
from crawler_lifecycle.domain.ranges import without
from crawler_lifecycle.workflows.evidence import Evidence
from crawler_lifecycle.workflows.options import REMOVE

IN_A_LOOK = timedelta(minutes=2)  # what is left then, the next look finds
AT_THE_END = timedelta(minutes=30)  # the export waits for it
PAUSE = timedelta(seconds=30)
TRIES = 4  # longer than any claim; what is left after that is for the cluster's own clean-up


async def remove(step: RemoveJobs, within: timedelta = AT_THE_END, options: workflow.ActivityConfig = REMOVE) -> int:
    """Remove a page of jobs at a time. Return how many have to stay for now."""
    left, until = 0, workflow.now() + within
    try:
        while True:
            removal = await workflow.execute_activity_method(ReconciliationActivities.remove_jobs, step, **options)
            left += removal.left
            if not removal.rest:
                return left
            if workflow.now() >= until:
                return left + 1
            step = step.model_copy(update={"tasks": removal.rest})
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("jobs of run %s stay in the cluster: %s", step.run.run_id, error.cause)
        return 0


class Leaving:
    """The jobs of a run that is over, before and after its export. Those of which the evidence is owed stay."""

    def __init__(self, run: RunRef, tasks: int, evidence: Evidence) -> None:
        self._run = run
        self._all = f"0-{tasks - 1}"
        self._evidence = evidence
        self._left = 0

    async def before_the_export(self) -> None:
        """Their logs, and what the cluster knows of them, belong to it."""
        await self._remove_explained()
        if owed := self._evidence.owed:
            await self._evidence.insist(self._run)
            await self._remove(without(owed, self._evidence.owed))

    async def after_the_export(self) -> None:
        for _ in range(TRIES):
            if not self._left and not self._evidence.owed:
                return
            await workflow.sleep(PAUSE)
            owed = self._evidence.owed
            await self._evidence.ask_again(self._run)
            if self._left:
                await self._remove_explained()
            else:
                await self._remove(without(owed, self._evidence.owed))

    async def _remove_explained(self) -> None:
        self._left = 0
        if self._evidence.owed:
            await self._remove(without(self._all, self._evidence.owed))
        else:
            self._left = await remove(RemoveJobs(run=self._run))

    async def _remove(self, tasks: str) -> None:
        if tasks:
            self._left += await remove(RemoveJobs(run=self._run, tasks=tasks))
