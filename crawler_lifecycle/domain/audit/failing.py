"""Rule for a workflow that fails the same workflow task again and again: its run makes no progress."""

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.domain.audit.findings import run_finding, timestamp
from crawler_lifecycle.domain.audit.subjects import AuditedRun, WorkflowInfo

ATTEMPTS = 3  # the second attempt may follow a worker's death
WHAT_TO_DO = (
    "start a worker of the version that began the run, or one without the bug, and it goes on by itself; "
    "if that cannot be: `temporal workflow terminate --workflow-id {}`, then `crawlctl resume {}`"
)


def is_failing(workflow: WorkflowInfo) -> bool:
    """Return whether the pending workflow task failed or timed out at least twice in a row."""
    return workflow.is_open and workflow.is_ours and workflow.task_attempt >= ATTEMPTS


def failing_workflow(run: AuditedRun, workflow: WorkflowInfo, failure: str | None) -> Finding:
    since = f" since {timestamp(workflow.task_since)}" if workflow.task_since else ""
    times = workflow.task_attempt - 1
    message = (
        f"it is {run.status}, and its workflow has failed the same task {times} times{since} "
        f"({failure or 'its history does not say why'}): nothing of the run goes on, and a stop only waits. "
        f"{WHAT_TO_DO.format(run.workflow_id, run.run_id)}"
    )
    return run_finding(run, FindingKind.WORKFLOW_FAILING, message)
