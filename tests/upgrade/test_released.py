"""A copy of the repository without its history says what it misses, and passes nowhere where nothing may be skipped."""

from pathlib import Path

import pytest

from tests.upgrade import released as before


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_copy_without_the_released_commit(
    ci: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(before, "COMMIT", "0" * 40)
    with pytest.raises(outcome, match="does not have it: `git fetch --unshallow`"):
        before.released(tmp_path / "released")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(outcome, match="no program `git`"):
        before.released(tmp_path / "released")
    assert not (tmp_path / "released").exists()
