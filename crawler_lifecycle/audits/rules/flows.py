"""The audit's rules for flows and crawl managers, and for the pending deliveries after a run's end.

Deliveries: exports and the closing notice. Flows: without a workflow although they need one, or ended with a pending
announcement. Managers: attempts without runs, runs without attempts, and ends without a reaction.
"""

from collections.abc import Collection
from datetime import datetime

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.notices import closing_notice, is_undelivered
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, WorkflowInfo, run_finding, timestamp

MOST_NOTICES = 3  # repetitions of a closing notice by audits; some receivers never accept the notice
EXPORTS = frozenset({FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED})


def owed_export(run: AuditedRun, failed_at: datetime | None, now: datetime, patience: AuditPatience) -> Finding | None:
    """Return the finding for a pending or failed export; None if no export is due, or not for long enough.

    `failed_at`: when the export failed, if known. The caller passes only runs without a workflow at work.
    """
    if run.finished_at is None or now - run.finished_at < patience.handover:
        return None
    if run.export_state is ExportState.PENDING:
        return run_finding(
            run, FindingKind.EXPORT_PENDING, f"it was over at {timestamp(run.finished_at)} and is not exported"
        )
    if run.export_state is ExportState.FAILED and (failed_at is None or now - failed_at >= patience.failed_export):
        at = f" at {timestamp(failed_at)}" if failed_at else ""
        return run_finding(run, FindingKind.EXPORT_FAILED, f"its export failed{at}")
    return None


def next_replay(repetitions: int, last: datetime, patience: AuditPatience) -> datetime:
    """Return when an audit repeats a failed export again. `last` is the time of the latest repetition.

    The pauses double, because a repetition may write a large archive in vain. `patience.replay` limits a pause, since
    audits repeat no export that long after the run's end.
    """
    return last + Backoff(patience.failed_export, patience.replay).pause(repetitions)


def is_too_old(run: AuditedRun, now: datetime, patience: AuditPatience) -> bool:
    """Return whether the run's end is too old to repeat pending deliveries; then they are only reported."""
    return run.finished_at is not None and now - run.finished_at > patience.replay


def owed_notice(
    run: AuditedRun, notice_keys: Collection[str], now: datetime, patience: AuditPatience, *, is_untried: bool = False
) -> Finding | None:
    """Return the finding for a failed or, if `is_untried`, never tried closing notice; None otherwise.

    `notice_keys` has the keys of the timeline's lines about undelivered notices, and about later deliveries.
    """
    if run.finished_at is None or now - run.finished_at < patience.handover:
        return None
    if not (is_untried or is_undelivered(run, notice_keys)):
        return None
    return run_finding(run, FindingKind.UNDELIVERED, f"its notice `{closing_notice(run)}` was not delivered")


def owed_kinds(run: AuditedRun, notice_keys: Collection[str], *, is_untried: bool = False) -> set[FindingKind]:
    """Return the finding kinds to keep open, because a delivery is unfinished, with or without a workflow at work."""
    kinds = set[FindingKind]()
    if run.export_state in (ExportState.PENDING, ExportState.FAILED):
        kinds |= EXPORTS  # both kinds are about the same delivery
    if is_untried or is_undelivered(run, notice_keys):
        kinds.add(FindingKind.UNDELIVERED)
    return kinds


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
        else "no host runs the manager: look for a host with the manager's module (`python -m workers.flows`)"
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
