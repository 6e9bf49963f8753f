"""A run's closing notice: which one it is, and whether it was delivered."""

from collections.abc import Collection

from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import NoticeKind
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.supervision import AuditedRun


def closing_notice(run: AuditedRun) -> NoticeKind:
    return NoticeKind.STOPPED if run.reason in BY_A_STOP else NoticeKind.FINISHED


def is_undelivered(run: AuditedRun, notice_keys: Collection[str]) -> bool:
    """Return whether the timeline shows a failure for the present end's closing notice, and no later delivery.

    The keys are made as `delivery.activities.notices` makes them when it writes these lines.
    """
    notice = f"{closing_notice(run)}:{run.end_number}"
    failure = event_id(run.run_uid, f"log:undelivered:{notice}")
    later_delivery = event_id(run.run_uid, f"log:delivered:{notice}")
    return failure in notice_keys and later_delivery not in notice_keys
