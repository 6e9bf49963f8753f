"""CI repeats what failed, names what passed only then, and stops at what fails again."""

import json
import sys
import time
from pathlib import Path

import pytest

from tests.ci import steps
from tests.ci.steps import Failed, Repeat, Step


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """The variables that make was given, for each call of make."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps, "_minutes", {})
    monkeypatch.setattr(steps, "_passed_when_repeated", [])
    monkeypatch.setattr(steps, "_hung", [])
    return []


def make_that(monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]], *failing: set[str]) -> None:
    left = list(failing)

    def run(step: Step, *variables: str, options: str = "") -> bool:
        made.append((*variables, *([options] if options else [])))
        names = left.pop(0)
        folder = step.cache / "v" / "cache"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lastfailed").write_text(json.dumps(dict.fromkeys(sorted(names), True)))
        return not names

    monkeypatch.setattr(steps, "_made", run)


def test_what_passes_is_not_repeated(monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]]) -> None:
    make_that(monkeypatch, made, set())
    steps.done(Step("test", repeat=Repeat.TESTS))
    assert made == [()]
    assert steps.summary()[1:] == ["CI: no test had to be repeated to pass"]


def test_what_passes_when_repeated_is_named(monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]]) -> None:
    make_that(monkeypatch, made, {"tests/a.py::one", "tests/b.py::two"}, set())
    steps.done(Step("test", repeat=Repeat.TESTS))
    assert made[1] == ("WORKERS=0", "BEDS=0", "SHARD=", steps.ONLY_FAILED)
    assert steps.summary()[1:] == [
        "CI: passed only when repeated: tests/a.py::one",
        "CI: passed only when repeated: tests/b.py::two",
    ]


def test_of_a_control_plane_whole_files_are_repeated(
    monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]]
) -> None:
    make_that(monkeypatch, made, {"tests/a.py::one", "tests/a.py::two", "tests/b.py::three"}, set())
    steps.done(Step("test-cluster", ("SHARD=2",), Repeat.FILES))
    assert made[1] == ("WORKERS=0", "BEDS=0", "SHARD=", "FILES=tests/a.py tests/b.py")


def test_what_fails_twice_fails(monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]]) -> None:
    make_that(monkeypatch, made, {"tests/a.py::one"}, {"tests/a.py::one"})
    with pytest.raises(Failed, match="test"):
        steps.done(Step("test", repeat=Repeat.TESTS))
    assert steps.summary()[1:] == ["CI: no test had to be repeated to pass"]


@pytest.mark.parametrize("repeat", [Repeat.NOTHING, Repeat.TESTS])
def test_what_fails_without_a_failed_test_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]], repeat: Repeat
) -> None:
    """A package that cannot be installed, say; and what failed an hour ago says nothing about it."""

    def run(step: Step, *variables: str, options: str = "") -> bool:
        made.append(variables)
        return False

    monkeypatch.setattr(steps, "_made", run)
    earlier = Step("lint").cache / "v" / "cache"
    earlier.mkdir(parents=True)
    (earlier / "lastfailed").write_text('{"tests/a.py::one": true}')
    with pytest.raises(Failed, match="lint"):
        steps.done(Step("lint", repeat=repeat))
    assert made == [()]


@pytest.mark.long
def test_a_real_test_that_passes_when_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With make and pytest themselves: the names are read where they are written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(steps, "_passed_when_repeated", [])
    (tmp_path / "Makefile").write_text(f"flaky:\n\t@{sys.executable} -m pytest -q test_it.py\n")
    (tmp_path / "test_it.py").write_text(
        "from pathlib import Path\n"
        "def test_flaky():\n    seen = Path('seen')\n    before = seen.exists()\n    seen.touch()\n    assert before\n"
        "def test_steady():\n    assert not Path('steady').exists()\n    Path('steady').touch()\n"
    )
    steps.done(Step("flaky", repeat=Repeat.TESTS))
    assert steps.summary()[1:] == ["CI: passed only when repeated: test_it.py::test_flaky"]


@pytest.mark.parametrize(("sleeps", "passes"), [(1, True), (2, False)])
def test_a_step_that_hangs_is_killed_with_its_processes_and_runs_a_second_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: list[tuple[str, ...]], sleeps: int, passes: bool
) -> None:
    hang = "sleep 300 & echo $$! >> pids; wait"
    (tmp_path / "Makefile").write_text(f"hangs:\n\t@if [ $$(cat pids | wc -l) -lt {sleeps} ]; then {hang}; fi\n")
    (tmp_path / "pids").touch()
    step = Step("hangs", most_minutes=0.5 / 60)
    if passes:
        steps.done(step)
    else:
        with pytest.raises(Failed, match="hangs hung"):
            steps.done(step)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == sleeps
    ended_by = time.monotonic() + 20  # a killed process still runs for a moment on a busy machine
    while any(_runs(int(pid)) for pid in pids):
        assert time.monotonic() < ended_by, pids
        time.sleep(0.02)
    assert "CI: killed at its limit, then repeated: hangs" in steps.summary()


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_failed_step_shows_its_telling_lines_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers of CI often see only the end of its output."""
    (tmp_path / "Makefile").write_text(
        "soak:\n\t@echo DIVERGENCE run 7: it is lost; seq 100; echo 'summary of the soak'; exit 1\n"
    )
    with pytest.raises(Failed) as failed:
        steps.done(Step("soak"))
    assert str(failed.value).splitlines() == ["soak", "DIVERGENCE run 7: it is lost"]
    assert "summary of the soak" in capsys.readouterr().out
