from datetime import UTC, datetime, timedelta

import pytest

from crawler_lifecycle.schedules.model import Occurrence, OccurrenceOutcome
from crawler_lifecycle.schedules.rules import ScheduledStart, starts_beside

pytestmark = pytest.mark.regression(
    "`schedule show` listed an earlier occurrence that had started late, behind a queue, as a start by other means"
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


LISTED = [
    Occurrence(at=at(minute), outcome=OccurrenceOutcome.STARTED, started_at=at(minute), workflow_id=f"crawl-{minute}")
    for minute in (30, 20, 10)
]
IN_TIME = ScheduledStart("crawl-20", "first", nominal=at(20), started_at=at(20))
LATE = ScheduledStart("crawl-0", "first", nominal=at(0), started_at=at(15))
TRIGGERED = ScheduledStart("crawl-12", "first", nominal=at(12), started_at=at(12))
LATER = ScheduledStart("crawl-25", "first", nominal=at(25), started_at=at(25))
STARTS = [IN_TIME, LATE, TRIGGERED, LATER]


def test_a_start_that_was_due_before_a_full_list_is_left_out() -> None:
    assert starts_beside(LISTED, STARTS, is_full=True) == [LATER, TRIGGERED]


def test_beside_a_list_with_room_every_other_start_is_named() -> None:
    assert starts_beside(LISTED, STARTS, is_full=False) == [LATER, LATE, TRIGGERED]
    assert starts_beside([], [LATE], is_full=True) == [LATE]
