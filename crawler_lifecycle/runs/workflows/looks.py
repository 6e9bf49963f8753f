"""A look: observe the run's jobs once, make the database agree with the cluster, and remove jobs that are over.

Evidence (log tail, events, node) is collected for tasks that end, before their statuses are written. No status depends
on evidence, so a look tries only once. Jobs without evidence stay in the cluster until the audit collects the evidence
and removes the jobs, or until the cluster's own clean-up removes the jobs.

Jobs are removed when their end and evidence are stored. No status depends on the removal. A job has to stay while a
delayed copy of its deployment request could make the job anew, or while its log cannot be kept.

`tasks` has task numbers as ranges in this module: `0-3,7`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.model import task_changes
from crawler_lifecycle.model.run_plan import RemoveJobs, RunInput, RunPlan, RunRef
from crawler_lifecycle.model.states import Intent
from crawler_lifecycle.runs.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.temporal.options import EVIDENCE, LOOK, READ, REMOVE, REMOVE_IN_A_LOOK, WRITE, at_once

LONGEST_IN_A_LOOK = timedelta(minutes=2)  # then the next look removes the further jobs
LONGEST_AT_THE_END = timedelta(minutes=30)  # then the export continues without further removals
# Removals after the export continue for two minutes. By then no deployment request is on the way any more: a claim
# lasts 60 s, and a request 60 s. The audit or the cluster's own clean-up removes jobs that stay longer.
TRIES_AFTER_EXPORT = 4
PAUSE_BEFORE_TRY = timedelta(seconds=30)
LONGEST_COLLECTION = timedelta(seconds=90)  # then no further page is begun, because the statuses wait to be written
# Bytes in a history after which no further page of evidence is begun. Temporal ends a workflow with 50 MB. The history
# has every page as a result, and once more as an input if the page could not be written inside of the workflow task.
LONG_HISTORY = 40_000_000


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


@dataclass(frozen=True)
class LookResult:
    differences: task_changes.Differences
    alive: int  # number of alive tasks after the look
    intent: Intent
    has_more: bool  # another look has to follow at once

    @property
    def duration(self) -> timedelta:
        """Duration of the observation alone, without waits for a worker and without writes."""
        return timedelta(seconds=self.differences.seconds)

    @property
    def is_proof(self) -> bool:
        """Whether the look proves the end of all the run's jobs."""
        return self.differences.known and not self.alive and not self.differences.unwanted


async def look(run: RunRef, next_look_at: datetime | None = None, stopped_at: datetime | None = None) -> LookResult:
    """Look at the run, write the differences, and remove the jobs of tasks that are over.

    `next_look_at` is recorded, since the audit reports a run with a long overdue look. `stopped_at` is the time when
    the present stop began; None without a stop.
    """
    active = await at_once(ReconciliationActivities.get_active_running_tasks, RunInput(run=run), READ)
    differences = await workflow.execute_activity_method(
        ReconciliationActivities.get_history_statuses_to_sync,
        task_changes.LookAt(run=run, active=active, stopped_at=stopped_at),
        **LOOK,
    )
    has_more = await _write_changes(run, differences)
    alive = await _close_look(run, active, differences, next_look_at)
    await remove_in_a_look(run, differences.removable)
    return LookResult(differences, alive.total, active.intent, has_more)


async def _write_changes(run: RunRef, differences: task_changes.Differences) -> bool:
    """Write the changes. Return whether another look has to follow at once.

    That is so if the changes were too many for a look, or if rows had changed since they were read. Such rows would
    otherwise stay wrong until the next paced look, because this look acknowledges the nudge.
    """
    if not differences.changes:
        return differences.more
    await collect_evidence(run, differences.evidence)
    step = task_changes.StatusWrite(run=run, changes=differences.changes, flow=differences.flow)
    written = await at_once(ReconciliationActivities.sync_statuses, step, WRITE)
    return differences.more or written.stale > 0


async def collect_evidence(run: RunRef, tasks: str) -> None:
    """Store the tasks' evidence, page by page, until a page fails, the time is up or the history is long."""
    until = workflow.now() + LONGEST_COLLECTION
    try:
        while tasks and workflow.now() < until and workflow.info().get_current_history_size() < LONG_HISTORY:
            tasks = (await _collect_page(run, tasks)).rest
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("run %s: no evidence of tasks %s before the audit: %s", run.run_id, tasks, error.cause)


async def _collect_page(run: RunRef, tasks: str) -> task_changes.EvidencePage:
    page = await workflow.execute_activity_method(
        ReconciliationActivities.get_bulk_task_history_data,
        task_changes.EvidenceRequest(run=run, tasks=tasks),
        **EVIDENCE,
    )
    await at_once(
        ReconciliationActivities.reconcile_tasks, task_changes.EvidenceWrite(run=run, items=page.items), EVIDENCE
    )
    return page


async def _close_look(
    run: RunRef, active: task_changes.ActiveTasks, differences: task_changes.Differences, next_look_at: datetime | None
) -> task_changes.AliveTasks:
    """Write the end of the look, acknowledge its nudge, and return the numbers of alive tasks."""
    step = task_changes.CloseLook(
        run=run,
        nudge=active.nudge,
        known=differences.known,
        problem=differences.problem,
        saturated=differences.saturated,
        next_look_at=next_look_at,
    )
    return await at_once(ReconciliationActivities.count_alive_tasks, step, WRITE)
