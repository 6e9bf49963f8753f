"""Collect evidence (log tail, events, node) for tasks that end, before their statuses are written.

No status depends on evidence, so a run tries once only. `remove_jobs` leaves jobs without evidence in the cluster,
until the audit collects the evidence and removes the jobs, or the cluster's own clean-up does.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from crawler_lifecycle.activities.reconciliation import ReconciliationActivities
from crawler_lifecycle.contract.steps.evidence import EvidencePage, EvidenceRequest, EvidenceWrite
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.workflows.options import EVIDENCE

LONGEST_COLLECTION = timedelta(seconds=90)  # no page is begun later: statuses wait for the collection
LONG_HISTORY = 40_000_000  # bytes; Temporal ends a workflow at 50 MB, and every page is in its history twice


async def collect_evidence(run: RunRef, tasks: str) -> None:
    """Put the tasks' evidence on record, a page at a time, until a page fails or the time is up."""
    until = workflow.now() + LONGEST_COLLECTION
    try:
        while tasks and workflow.now() < until and workflow.info().get_current_history_size() < LONG_HISTORY:
            tasks = (await _collect_page(run, tasks)).rest
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("run %s: no evidence of tasks %s before the audit: %s", run.run_id, tasks, error.cause)


async def _collect_page(run: RunRef, tasks: str) -> EvidencePage:
    page = await workflow.execute_activity_method(
        ReconciliationActivities.get_bulk_task_history_data, EvidenceRequest(run=run, tasks=tasks), **EVIDENCE
    )
    await workflow.execute_activity_method(
        ReconciliationActivities.reconcile_tasks, EvidenceWrite(run=run, items=page.items), **EVIDENCE
    )
    return page
