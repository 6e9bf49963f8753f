"""What a task that ends leaves in the cluster is put on record before its job leaves. No status depends on it."""

from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.steps import EvidenceRequest, EvidenceWrite, RunRef
from crawler_lifecycle.domain.ranges import union
from crawler_lifecycle.workflows.options import EVIDENCE, EVIDENCE_AGAIN, EVIDENCE_AT_THE_END

# from then on no further page is begun
BEFORE_A_STATUS = timedelta(seconds=90)
AFTER_A_LOOK = timedelta(minutes=1)
AT_THE_END = timedelta(minutes=30)  # the export waits for it
LONG_HISTORY = 25_000_000  # bytes, of the 50 MB that Temporal takes: each page is in it twice
Hurry = Callable[[], bool]


class Evidence:
    """`owed`: tasks, as ranges, of which the cluster did not give it yet. Their jobs stay until it does."""

    def __init__(self) -> None:
        self.owed = ""
        self._is_busy = False  # when it was asked last, it did not give all

    async def keep(self, run: RunRef, tasks: str) -> None:
        """Of what a look found over, before the status says so. A cluster that was busy a moment ago is tried once."""
        if not tasks:
            return
        patience = EVIDENCE_AGAIN if self._is_busy else EVIDENCE
        self.owe(await self._kept(run, tasks, patience, _late_in(BEFORE_A_STATUS)))

    def owe(self, tasks: str) -> None:
        self.owed = union(self.owed, tasks)

    async def ask_again(self, run: RunRef) -> None:
        """What is owed then, the next look asks for, or the end."""
        if self.owed:
            self.owed = await self._kept(run, self.owed, EVIDENCE_AGAIN, _late_in(AFTER_A_LOOK))

    async def insist(self, run: RunRef) -> None:
        if self.owed:
            self.owed = await self._kept(run, self.owed, EVIDENCE_AT_THE_END, _late_in(AT_THE_END))

    async def _kept(self, run: RunRef, tasks: str, patience: workflow.ActivityConfig, is_late: Hurry) -> str:
        """A page at a time; of which tasks it could not be had."""
        try:
            while tasks and not is_late():
                page = await workflow.execute_activity_method(
                    ReconciliationActivities.get_bulk_task_history_data,
                    EvidenceRequest(run=run, tasks=tasks),
                    **patience,
                )
                await workflow.execute_activity_method(
                    ReconciliationActivities.reconcile_tasks, EvidenceWrite(run=run, items=page.items), **patience
                )
                tasks = page.rest
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("no evidence for tasks %s of run %s yet: %s", tasks, run.run_id, error.cause)
        self._is_busy = bool(tasks)
        return tasks


def _late_in(limit: timedelta) -> Hurry:
    until = workflow.now() + limit
    return lambda: workflow.now() >= until or workflow.info().get_current_history_size() > LONG_HISTORY
