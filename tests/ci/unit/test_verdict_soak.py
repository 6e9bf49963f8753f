"""The soak of verdicts sums up what its processes found, and fails if a row was wrong."""

import pytest

from crawler_lifecycle.model.looks import TaskRow
from tests.kit.data.rows import row
from tests.worlds import verdict_soak
from tests.worlds.verdict_soak import LIVES_IN_A_BATCH, report, soak, total_of


def test_a_wrong_row_is_counted_with_its_seed_and_the_other_lives_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(seed: int) -> tuple[int, TaskRow]:
        assert seed != LIVES_IN_A_BATCH + 3, "a wrong row"
        return 2, row()

    monkeypatch.setattr(verdict_soak, "play", play)
    total = total_of(soak(batch) for batch in (0, 1))
    assert (total.lives, total.looks, total.wrong) == (2 * LIVES_IN_A_BATCH, 4 * LIVES_IN_A_BATCH - 2, [503])
    assert report(total) == 1
    assert "1 wrong rows\nWRONG: python -m tests.worlds.verdict_soak --seed 503\n" in capsys.readouterr().out


@pytest.mark.system
def test_no_wrong_row_is_a_success() -> None:
    assert report(soak(0)) == 0
