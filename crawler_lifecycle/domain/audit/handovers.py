"""Rules for the deliveries that a run owes after its end: its exports and its closing notice."""

from collections.abc import Collection
from datetime import datetime

from crawler_lifecycle.contract.audits import Finding, FindingKind
from crawler_lifecycle.contract.notices import NoticeKind
from crawler_lifecycle.contract.states import ExportState
from crawler_lifecycle.domain.audit.subjects import AuditedRun, AuditPatience, run_finding, timestamp
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.domain.reasons import BY_A_STOP

MOST_NOTICES = 3  # no more repetitions: some receivers never accept a closing notice
EXPORTS = frozenset({FindingKind.EXPORT_PENDING, FindingKind.EXPORT_FAILED})


def owed_export(run: AuditedRun, failed_at: datetime | None, now: datetime, patience: AuditPatience) -> Finding | None:
    """Return the finding for a pending or failed export. The caller passes only runs without a workflow at work."""
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


def next_replay(acts: int, last: datetime, patience: AuditPatience) -> datetime:
    """Return when a failed export is due again after `acts` repetitions, with the latest at `last`.

    The pauses grow, since an archive may be large.
    """
    return last + Backoff(patience.failed_export, patience.replay).pause(acts)


def is_too_old(run: AuditedRun, now: datetime, patience: AuditPatience) -> bool:
    """Return whether the end is too old to deliver; such an end is only reported."""
    return run.finished_at is not None and now - run.finished_at > patience.replay


def owed_notice(
    run: AuditedRun, notice_keys: Collection[str], now: datetime, patience: AuditPatience, *, is_untried: bool = False
) -> Finding | None:
    """Return the finding for a closing notice that failed or, if `is_untried`, was never tried.

    `notice_keys` has the keys of the timeline's lines about undelivered notices, and about later deliveries.
    """
    if (
        run.finished_at is None
        or now - run.finished_at < patience.handover
        or not (is_untried or _is_undelivered(run, notice_keys))
    ):
        return None
    return run_finding(run, FindingKind.UNDELIVERED, f"its notice `{_closing(run)}` was not delivered")


def owed_kinds(run: AuditedRun, notice_keys: Collection[str], *, is_untried: bool = False) -> set[FindingKind]:
    """Return the kinds of unfinished deliveries, even while a workflow makes them: their findings stay open."""
    exports = EXPORTS if run.export_state in (ExportState.PENDING, ExportState.FAILED) else frozenset()
    return {*exports, FindingKind.UNDELIVERED} if is_untried or _is_undelivered(run, notice_keys) else {*exports}


def _is_undelivered(run: AuditedRun, notice_keys: Collection[str]) -> bool:
    failed, repaired = (
        event_id(run.run_uid, f"log:{event}:{_closing(run)}:{run.end_number}") for event in ("undelivered", "delivered")
    )
    return failed in notice_keys and repaired not in notice_keys


def _closing(run: AuditedRun) -> NoticeKind:
    return NoticeKind.STOPPED if run.reason in BY_A_STOP else NoticeKind.FINISHED
