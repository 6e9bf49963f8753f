"""What a schedule went by before is read back from its note, as far as that can be known."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from temporalio.client import ScheduleIntervalSpec, SchedulePolicy, ScheduleSpec

from crawler_lifecycle.control.earlier_rules import MOST_RULES, Rules, earlier_rules, with_rules

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def schedule(note: str, since: datetime, spec: ScheduleSpec | None = None) -> Any:
    spec = spec or ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(minutes=20))], time_zone_name="UTC")
    info = SimpleNamespace(created_at=since, last_updated_at=None, num_actions_missed_catchup_window=2)
    parts = SimpleNamespace(spec=spec, policy=SchedulePolicy(), state=SimpleNamespace(note=note))
    return SimpleNamespace(schedule=parts, info=info)


def test_rules_read_back_with_the_time_they_held() -> None:
    note = with_rules(schedule("ann's words", NOON), NOON + HOUR - timedelta(seconds=5))
    (rules,) = earlier_rules(note, NOON + HOUR)
    assert (rules.since, rules.until, rules.every_seconds, rules.missed) == (NOON, NOON + HOUR, 1200, 2)
    assert rules.due(NOON + 9 * HOUR, 2) == [NOON + HOUR - timedelta(minutes=20), NOON + HOUR]
    assert rules.due(NOON + timedelta(minutes=40), 9) == [NOON + timedelta(minutes=20), NOON + timedelta(minutes=40)]
    assert rules.due(NOON, 9) == []
    assert note.startswith("ann's words\n")


def test_what_others_changed_in_between_is_left_out() -> None:
    """Its times are not known, so none are made up for it."""
    note = with_rules(schedule("", NOON), NOON + HOUR)
    assert earlier_rules(note, NOON + 5 * HOUR)[0].until == NOON + HOUR
    assert earlier_rules(note, NOON + HOUR / 2)[0].until == NOON + HOUR / 2


def test_rules_that_only_others_make_have_no_times() -> None:
    for spec in (
        ScheduleSpec(intervals=[ScheduleIntervalSpec(HOUR), ScheduleIntervalSpec(2 * HOUR)]),
        ScheduleSpec(intervals=[ScheduleIntervalSpec(HOUR)], end_at=NOON + HOUR),
    ):
        (rules,) = earlier_rules(with_rules(schedule("", NOON, spec), NOON + HOUR), NOON + HOUR)
        assert rules.due(NOON + HOUR, 9) == []


def test_what_cannot_be_read_is_passed_over() -> None:
    note = "went by {}\nwent by x\n" + with_rules(schedule("", NOON), NOON + HOUR)
    assert len(earlier_rules(note, NOON + HOUR)) == 1
    rules = Rules(since=NOON, until=NOON + HOUR, missed=0, window_seconds=60, cron=["x", "0 13 * * *"], time_zone="No")
    assert rules.due(NOON + HOUR, 9) == []


def test_the_oldest_rules_go() -> None:
    note = "paused since Monday"
    for hour in range(MOST_RULES + 3):
        note = with_rules(schedule(note, NOON + hour * HOUR), NOON + (hour + 1) * HOUR)
    found = earlier_rules(note, NOON + (MOST_RULES + 3) * HOUR)
    assert [each.since for each in found] == [NOON + hour * HOUR for hour in range(3, MOST_RULES + 3)]
    assert note.startswith("paused since Monday\n")
