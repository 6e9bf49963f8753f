"""A look: observe the run's jobs once, and make the database agree with the cluster.

Evidence (log tail, events, node) is collected for tasks that end, before their statuses are written. No status depends
on evidence, so a run tries once only. `remove_jobs` leaves jobs without evidence in the cluster, until the audit
collects the evidence and removes the jobs, or the cluster's own clean-up does.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import looks as steps
from crawler_lifecycle.contract.steps.run import RunInput, RunRef
from crawler_lifecycle.workflows.options import EVIDENCE, LOOK, READ, WRITE
from crawler_lifecycle.workflows.removal import remove_in_a_look

LONGEST_COLLECTION = timedelta(seconds=90)  # no page is begun later: statuses wait for the collection
LONG_HISTORY = 40_000_000  # bytes; Temporal ends a workflow at 50 MB, and every page is in its history twice


async def collect_evidence(run: RunRef, tasks: str) -> None:
    """Put the tasks' evidence on record, a page at a time, until a page fails or the time is up.

    Here and below, `tasks` has task numbers as ranges: `0-3,7`.
    """
    until = workflow.now() + LONGEST_COLLECTION
    try:
        while tasks and workflow.now() < until and workflow.info().get_current_history_size() < LONG_HISTORY:
            tasks = (await _collect_page(run, tasks)).rest
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("run %s: no evidence of tasks %s before the audit: %s", run.run_id, tasks, error.cause)


async def _collect_page(run: RunRef, tasks: str) -> steps.EvidencePage:
    page = await workflow.execute_activity_method(
        ReconciliationActivities.get_bulk_task_history_data, steps.EvidenceRequest(run=run, tasks=tasks), **EVIDENCE
    )
    await workflow.execute_activity_method(
        ReconciliationActivities.reconcile_tasks, steps.EvidenceWrite(run=run, items=page.items), **EVIDENCE
    )
    return page


@dataclass(frozen=True)
class LookResult:
    differences: steps.Differences
    alive: int  # number of tasks
    intent: Intent
    more: bool  # a look could not carry all changes, or rows had changed since they were read

    @property
    def took(self) -> timedelta:
        """Time for observation and comparison: neither the worker's queue nor the writes slow down the next look."""
        return timedelta(seconds=self.differences.seconds)

    @property
    def is_proof(self) -> bool:
        """Whether the look proves that no job of the run runs in the cluster any more."""
        return self.differences.known and not self.alive and not self.differences.unwanted


async def look(run: RunRef, next_look_at: datetime | None = None, stopped_at: datetime | None = None) -> LookResult:
    """Look at the run and write the differences.

    `next_look_at` goes on record: a run with a long overdue look counts as unsupervised. `stopped_at` is the time when
    the present stop began.
    """
    active = await workflow.execute_activity_method(
        ReconciliationActivities.get_active_running_tasks, RunInput(run=run), **READ
    )
    differences = await workflow.execute_activity_method(
        ReconciliationActivities.get_history_statuses_to_sync,
        steps.LookAt(run=run, active=active, stopped_at=stopped_at),
        **LOOK,
    )
    more = await _write(run, differences)
    alive = await _close(run, active, differences, next_look_at)
    await remove_in_a_look(run, differences.removable)
    return LookResult(differences, alive.total, active.intent, more)


async def _write(run: RunRef, differences: steps.Differences) -> bool:
    """Write the differences. Return whether another look has to follow at once.

    A look acknowledges its nudge even if rows had changed since they were read: without another look at once, those
    rows would stay wrong until the next paced look.
    """
    if not differences.changes:
        return differences.more
    await collect_evidence(run, differences.evidence)
    written = await workflow.execute_activity_method(
        ReconciliationActivities.sync_statuses, steps.StatusWrite(run=run, changes=differences.changes), **WRITE
    )
    return differences.more or written.stale > 0


async def _close(
    run: RunRef, active: steps.ActiveTasks, differences: steps.Differences, next_look_at: datetime | None
) -> steps.AliveTasks:
    step = steps.CloseLook(
        run=run,
        nudge=active.nudge,
        known=differences.known,
        problem=differences.problem,
        saturated=differences.saturated,
        next_look_at=next_look_at,
    )
    return await workflow.execute_activity_method(ReconciliationActivities.count_alive_tasks, step, **WRITE)
