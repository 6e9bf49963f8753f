"""What became of each occurrence is concluded rightly, and where nothing is known, nothing is claimed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.schedules.model import Occurrence, OccurrenceOutcome, Overlap, Pause, SkipReason
from crawler_lifecycle.schedules.rules import Circumstances, ScheduledStart, outcomes, with_queue

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
KNOWN = Circumstances(
    starts=[],
    pauses=[],
    paused=False,
    overlap=Overlap.SKIP,
    jitter=timedelta(),
    window=timedelta(hours=1),
    queued=0,
    missed=0,
    now=NOON + timedelta(hours=2),
)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def start(nominal: float, began: float | None = None, closed: float | None = None) -> ScheduledStart:
    began = nominal if began is None else began
    closed_at = None if closed is None else at(closed)
    return ScheduledStart(f"crawl-{nominal}", "first", at(nominal), at(began), closed_at)


def told(due: list[float], known: Circumstances) -> list[str]:
    return [_word(each) for each in with_queue(outcomes([at(minute) for minute in due], known), known)]


def _word(each: Occurrence) -> str:
    return each.reason or each.outcome


def test_started_and_skipped_because_an_earlier_run_was_open() -> None:
    known = replace(KNOWN, starts=[start(0, closed=25), start(30, closed=31)])
    assert told([0, 10, 20, 30], known) == ["started", "overlap", "overlap", "started"]
    first, second, *_ = outcomes([at(0), at(10)], known)
    assert (first.workflow_id, second.detail) == ("crawl-0", "crawl-0 was still open")


def test_with_allow_nothing_is_in_the_way() -> None:
    known = replace(KNOWN, overlap=Overlap.ALLOW, starts=[start(0, closed=25)], missed=1)
    assert told([0, 10], known) == ["started", "missed_window"]


def test_paused_with_who_and_why() -> None:
    known = replace(KNOWN, pauses=[Pause(since=at(5), until=at(15), actor="ann", reason="rebuilt")], starts=[start(20)])
    assert told([10, 20], known) == ["paused", "started"]
    assert outcomes([at(10)], known)[0].detail == "paused by ann: rebuilt"


def test_a_pause_by_another_tool_explains_only_what_came_after_the_last_start() -> None:
    known = replace(KNOWN, paused=True, starts=[start(10, closed=11)])
    assert told([0, 10, 20], known) == ["unknown", "started", "paused"]


def test_missed_only_as_many_as_temporal_counts() -> None:
    assert told([0, 10], replace(KNOWN, missed=2)) == ["missed_window"] * 2
    assert told([0, 10], replace(KNOWN, missed=7)) == ["missed_window"] * 2
    assert told([0, 10], replace(KNOWN, missed=1)) == ["unknown"] * 2
    assert told([0], KNOWN) == ["unknown"]


def test_what_was_caught_up_with_was_in_the_way_of_the_next_from_when_it_was_due() -> None:
    """Both were started late, at once; the second one found the first one open."""
    known = replace(KNOWN, starts=[start(0, began=6.5, closed=7)], missed=1)
    assert told([-5, 0, 5], known) == ["missed_window", "started", "overlap"]
    assert "s after it was due" in outcomes([at(0)], known)[0].detail


def test_a_backfill_was_in_nobodys_way_before_it_began() -> None:
    known = replace(KNOWN, starts=[start(0, began=90)])
    assert told([0, 5, 95], known) == ["started", "unknown", "overlap"]


def test_an_occurrence_that_was_just_due_is_not_called_skipped() -> None:
    known = replace(KNOWN, now=at(0) + timedelta(seconds=3))
    assert told([0], known) == ["due"]


def test_jitter_and_triggers_by_hand() -> None:
    """12:00 came at 12:02, with its jitter; a trigger at 12:01 is no occurrence, nor is one long before."""
    known = replace(KNOWN, jitter=timedelta(minutes=5), starts=[start(0, began=2.01, closed=2.5)])
    assert told([2], known) == ["started"]
    by_hand = replace(known, starts=[start(1, closed=1.5)], missed=1)
    assert told([2], by_hand) == ["missed_window"]
    assert told([2], replace(by_hand, starts=[start(-30, closed=-29)])) == ["missed_window"]


def test_queue_keeps_the_first_that_waits_and_replace_the_last() -> None:
    known = replace(KNOWN, starts=[start(0)], queued=1)
    assert told([0, 10, 20], replace(known, overlap=Overlap.QUEUE)) == ["started", "queued", "overlap"]
    assert told([0, 10, 20], replace(known, overlap=Overlap.REPLACE)) == ["started", "overlap", "queued"]
    assert told([0, 10], known) == ["started", "overlap"], "a backfill may wait as well"


def test_every_time_has_an_answer() -> None:
    found = outcomes([at(minute) for minute in range(60)], replace(KNOWN, starts=[start(3, closed=9)], missed=100))
    assert [each.at for each in found] == [at(minute) for minute in range(60)]
    assert {each.outcome for each in found} == {OccurrenceOutcome.STARTED, OccurrenceOutcome.SKIPPED}
    assert all((each.reason in list(SkipReason)) == (each.outcome is OccurrenceOutcome.SKIPPED) for each in found)
