"""The audit's rules for flows and crawl managers.

Flows: without a workflow although they need one, or ended with a pending announcement. Managers: attempts without runs,
runs without attempts, and ends without a reaction.
"""

from datetime import datetime

from crawler_lifecycle.audits.rules.handovers import next_replay
from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.supervision import AuditPatience, WorkflowInfo, timestamp


def is_unsupervised(workflow: WorkflowInfo, now: datetime, patience: AuditPatience) -> bool:
    """Return whether the flow has no workflow. After a workflow closed a moment ago, another may follow."""
    return not workflow.is_open and (workflow.ended_at is None or now - workflow.ended_at >= patience.workflow)


def unsupervised(uid: str, flow_id: str, state: FlowState, workflow: WorkflowInfo) -> Finding:
    news = ", one of its runs was reopened" if state.is_final else ""
    message = f"flow {flow_id} is {state}{news}, and its workflow {_present(workflow)}"
    return Finding(kind=FindingKind.FLOW_UNSUPERVISED, subject=uid, message=message, problem=workflow.problem or None)


def unannounced(uid: str, flow_id: str, ended_at: datetime, problem: str | None, workflow: WorkflowInfo) -> Finding:
    cause = f": {problem}" if problem else ""
    message = f"flow {flow_id} was over at {timestamp(ended_at)}, and its end is not announced{cause}"
    return Finding(kind=FindingKind.FLOW_UNANNOUNCED, subject=uid, message=message, problem=workflow.problem or None)


def reason_to_wait(
    finding: Finding, acts: int, last: datetime | None, now: datetime, patience: AuditPatience
) -> str | None:
    """Return why the audit does not announce the end again now; None: the audit does.

    `acts`: earlier repetitions; `last`: time of the last repetition. Each took an hour of tries, so the pauses double.
    """
    if finding.kind is not FindingKind.FLOW_UNANNOUNCED or last is None:
        return None
    due = next_replay(acts, last, patience)
    if now >= due:
        return None
    times = "once" if acts == 1 else f"{acts} times"
    return f"announced again {times} in vain, and again at {timestamp(due)}"


def run_missing(key: str, name: str, began_at: datetime, workflow: WorkflowInfo) -> Finding:
    """Return the finding for an attempt without a run. `name`: the item with its flow."""
    message = f"{name} was to start at {timestamp(began_at)}, and has no run: its workflow {_present(workflow)}"
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
        else "no host runs the manager: look for a host with the manager's module (`crawlctl host`)"
    )
    message = f"{name} ended at {timestamp(ended_at)}, and its manager has not reacted to the end"
    return Finding(kind=FindingKind.MANAGED_END_UNANSWERED, subject=key, message=message, problem=problem)


def _present(workflow: WorkflowInfo) -> str:
    """Return the workflow's state for a message."""
    if workflow.problem:
        return "cannot be described"
    if workflow.is_open:
        return "is open"
    if workflow.ended_at is None:
        return "is not there"
    return f"has {workflow.end} at {timestamp(workflow.ended_at)}"
