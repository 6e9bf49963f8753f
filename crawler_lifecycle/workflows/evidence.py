"""What a task that ends leaves in the cluster is put on record before its job leaves. No status depends on it."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.steps import EvidenceRequest, EvidenceWrite, RunRef
from crawler_lifecycle.domain.ranges import union
from crawler_lifecycle.workflows.options import EVIDENCE, EVIDENCE_AGAIN, EVIDENCE_AT_THE_END

OWED = "evidence-is-asked-for-again"
AFTER_A_LOOK = timedelta(minutes=1)
AT_THE_END = timedelta(minutes=30)  # the export waits for it


class Evidence:
    """`owed`: tasks, as ranges, of which the cluster did not give it yet. Their jobs stay until it does."""

    def __init__(self) -> None:
        self.owed = ""

    async def keep(self, run: RunRef, tasks: str, look: int) -> None:
        """Of what a look found over, before the status says so. A cluster that still owes some is tried but once."""
        self.owe(await _kept(run, tasks, EVIDENCE_AGAIN if self.owed else EVIDENCE), str(look))

    def owe(self, tasks: str, moment: str) -> None:
        """Each moment asks for itself: a no is remembered, also where only a worker of an earlier version had one."""
        if tasks and workflow.patched(f"{OWED}-{moment}"):
            self.owed = union(self.owed, tasks)

    async def ask_again(self, run: RunRef) -> None:
        """A busy cluster may have an hour of it: what is left then, the next look asks for, or the end."""
        if self.owed:
            self.owed = await _kept(run, self.owed, EVIDENCE_AGAIN, AFTER_A_LOOK)

    async def insist(self, run: RunRef) -> None:
        if self.owed:
            self.owed = await _kept(run, self.owed, EVIDENCE_AT_THE_END, AT_THE_END)


async def _kept(run: RunRef, tasks: str, patience: workflow.ActivityConfig, within: timedelta | None = None) -> str:
    """A page at a time; of which tasks it could not be had."""
    until = workflow.now() + within if within else None
    try:
        while tasks and (until is None or workflow.now() < until):
            page = await workflow.execute_activity_method(
                ReconciliationActivities.get_bulk_task_history_data, EvidenceRequest(run=run, tasks=tasks), **patience
            )
            await workflow.execute_activity_method(
                ReconciliationActivities.reconcile_tasks, EvidenceWrite(run=run, items=page.items), **patience
            )
            tasks = page.rest
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("no evidence for tasks %s of run %s yet: %s", tasks, run.run_id, error.cause)
    return tasks
