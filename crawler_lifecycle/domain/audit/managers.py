"""The audit's rules for crawl managers: attempts without runs, runs without attempts, and ends without a reaction."""

from datetime import datetime

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.domain.audit.subjects import WorkflowInfo, timestamp


def run_missing(key: str, name: str, began_at: datetime, workflow: WorkflowInfo) -> Finding:
    """Return the finding for an attempt without a run. `name`: the item with its flow."""
    if workflow.problem:
        state = "cannot be described"
    elif workflow.is_open:
        state = "is open"
    elif workflow.ended_at is None:
        state = "is not there"
    else:
        state = f"has {workflow.end} at {timestamp(workflow.ended_at)}"
    message = f"{name} was to start at {timestamp(began_at)}, and has no run: its workflow {state}"
    return Finding(kind=FindingKind.MANAGED_RUN_MISSING, subject=key, message=message, problem=workflow.problem or None)


def run_untold(key: str, name: str, run_id: int, run_uid: str | None) -> Finding:
    message = f"{name} does not know its run {run_id}, or the end of the run"
    return Finding(
        kind=FindingKind.MANAGED_RUN_UNTOLD, subject=key, message=message, run_id=run_id, run_uid=run_uid or None
    )


def run_unknown(flow_id: str, run_id: int, run_uid: str) -> Finding:
    """Return the finding for a run of a graph or of a crawl manager."""
    return Finding(
        kind=FindingKind.FLOW_RUN_UNKNOWN,
        subject=run_uid,
        message=f"run {run_id} names an attempt of flow {flow_id}, which has no such attempt",
        run_id=run_id,
        run_uid=run_uid,
        problem=f"nobody reacts to the end of the run: stop the run with `crawlctl stop {run_id}`, or let the run end",
    )


def end_unanswered(key: str, name: str, ended_at: datetime, *, is_failing: bool) -> Finding:
    """Return the finding for an end without a reaction. `is_failing`: a failure pauses the manager."""
    problem = (
        "a failure of the author's code pauses the manager: mend the code, then use `crawlctl flow resume`"
        if is_failing
        else "no host runs the manager: look for a host with the manager's module (`python -m workers.flows`)"
    )
    message = f"{name} ended at {timestamp(ended_at)}, and its manager has not reacted to the end"
    return Finding(kind=FindingKind.MANAGED_END_UNANSWERED, subject=key, message=message, problem=problem)
