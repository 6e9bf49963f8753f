"""The audit's rules for flows: flows without a workflow that need one, and ended flows with a pending announcement."""

from datetime import datetime

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.flows.states import FlowState
from crawler_lifecycle.domain.audit.handovers import next_replay
from crawler_lifecycle.domain.audit.subjects import AuditPatience, WorkflowInfo, timestamp


def is_unsupervised(workflow: WorkflowInfo, now: datetime, patience: AuditPatience) -> bool:
    """Return whether the flow has no workflow. After a workflow closed a moment ago, another may follow."""
    return not workflow.is_open and (workflow.ended_at is None or now - workflow.ended_at >= patience.workflow)


def unsupervised(uid: str, flow_id: str, state: FlowState, workflow: WorkflowInfo) -> Finding:
    if workflow.problem:
        end = "cannot be described"
    elif workflow.ended_at is None:
        end = "is not there"
    else:
        end = f"has {workflow.end} at {timestamp(workflow.ended_at)}"
    news = ", one of its runs was reopened" if state.is_final else ""
    message = f"flow {flow_id} is {state}{news}, and its workflow {end}"
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
