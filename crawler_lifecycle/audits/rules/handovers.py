"""The audit's rules for pending deliveries after a run's end: its exports and its closing notice."""

from collections.abc import Collection
from datetime import datetime

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.model.audits import Finding, FindingKind
from crawler_lifecycle.model.notices import closing_notice, is_undelivered
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, run_finding, timestamp

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
