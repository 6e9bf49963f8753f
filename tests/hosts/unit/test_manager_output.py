"""Lines of a manager's object on their way to the record."""

from datetime import UTC, datetime

import pytest

from crawler_lifecycle.hosts.managers import desk
from crawler_lifecycle.hosts.managers.desk import Output


class EarlierClock:
    @staticmethod
    def now(_: object) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


def test_a_line_after_the_clock_was_set_back_is_kept_until_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Output()
    lines.add("first")
    written = lines.lines()
    monkeypatch.setattr(desk, "datetime", EarlierClock)
    lines.add("second")
    lines.note_written(written)
    assert [line.text for line in lines.lines()] == ["second"]
