"""Pauses survive in a schedule's note, beside whatever else was written there."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.schedules.commands.translation import (
    MOST_LINES,
    PAUSED,
    RESUMED,
    pauses_in,
    with_known_end,
    with_line,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@given(st.none() | st.text(), st.none() | st.text())
def test_whatever_is_said_is_one_line_that_reads_back(actor: str | None, reason: str | None) -> None:
    note = with_line("", PAUSED, NOON, actor, reason)
    note = with_line(note, RESUMED, NOON + timedelta(hours=1), actor, reason)
    (pause,) = pauses_in(note)
    assert (pause.since, pause.until) == (NOON, NOON + timedelta(hours=1))


def test_what_others_wrote_is_kept_and_passed_over() -> None:
    note = with_line("bob's note: paused since Monday", PAUSED, NOON, "ann: x", "a: b")
    assert note.splitlines()[0] == "bob's note: paused since Monday"
    (pause,) = pauses_in(note)
    assert (pause.actor, pause.reason, pause.until) == ("ann  x", "a: b", None)
    assert with_known_end([pause], paused=True) == [pause]
    assert with_known_end([pause], paused=False) == [], "another tool has ended it, nobody knows when"


def test_the_oldest_lines_go() -> None:
    note = ""
    for hour in range(MOST_LINES):
        note = with_line(note, PAUSED, NOON + timedelta(hours=2 * hour), None, None)
        note = with_line(note, RESUMED, NOON + timedelta(hours=2 * hour + 1), None, None)
    assert len(note.splitlines()) == MOST_LINES
    found = pauses_in(note)
    assert len(found) == MOST_LINES // 2
    assert found[-1].until == NOON + timedelta(hours=2 * MOST_LINES - 1)
