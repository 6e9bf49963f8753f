"""The shards of CI together are the whole suite, and no test is in two of them."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ci import shards

# in a process of its own, as pytest collects once a process
COLLECT = """
import json, sys, pytest
from tests.ci.shards import SHARDS, group, shard_of

class Collected:
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        seen = {}
        for suite in ("crash", "outage", "cluster", "system", "sequences"):
            tests = [item for item in items if item.get_closest_marker(suite)]
            if suite == "system":
                tests = [item for item in tests if not item.get_closest_marker("cluster")]
            seen[suite] = {
                "whole": [item.nodeid for item in tests],
                "parts": [[item.nodeid for item in shard_of(tests, n)] for n in range(1, SHARDS + 1)],
                "closing": [item.nodeid for item in tests if item.get_closest_marker("closing")],
                "groups": sorted({group(item) for item in tests}),
            }
        open(sys.argv[1], "w").write(json.dumps(seen))

sys.exit(pytest.main(["--collect-only", "-qq", "-m", *sys.argv[2:]], plugins=[Collected()]))
"""
SHARDED = "crash or outage or cluster and not large or system and not cluster or sequences"
Collected = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    seen = tmp_path_factory.mktemp("collected") / "seen.json"
    command = [sys.executable, "-c", COLLECT, str(seen), SHARDED, "tests"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return Collected(json.loads(seen.read_text()))


@pytest.mark.system
@pytest.mark.parametrize("suite", ["crash", "outage", "cluster", "system", "sequences"])
def test_the_shards_of_a_suite_are_the_whole_suite(collected: Collected, suite: str) -> None:
    seen = collected[suite]
    counted = Counter(name for part in seen["parts"] for name in part)
    assert counted.keys() == set(seen["whole"])
    assert {name for name, times in counted.items() if times > 1} <= set(seen["closing"])
    assert all(set(part) - set(seen["closing"]) for part in seen["parts"])


@pytest.mark.system
def test_every_group_with_a_duration_exists(collected: Collected) -> None:
    assert shards.MINUTES.keys() <= {name for seen in collected.values() for name in seen["groups"]}


@given(st.dictionaries(st.text(min_size=1), st.floats(0.1, 30.0)), st.integers(1, 8))
def test_each_group_is_in_one_shard(minutes: dict[str, float], number: int) -> None:
    parts = shards.divided(minutes, number)
    assert len(parts) == number
    assert Counter(name for part in parts for name in part) == Counter(minutes.keys())


@given(st.dictionaries(st.text(min_size=1), st.floats(0.1, 30.0), min_size=1), st.integers(1, 8))
def test_no_shard_takes_longer_than_a_fair_part_and_one_group(minutes: dict[str, float], number: int) -> None:
    longest = max(sum(minutes[name] for name in part) for part in shards.divided(minutes, number))
    assert longest <= sum(minutes.values()) / number + max(minutes.values()) + 1e-9


@pytest.mark.long
def test_each_process_takes_the_same_tests() -> None:
    """Processes differ in the order of their sets, and sums of floats by that order."""
    divide = "from tests.ci.shards import divided; print(*map(sorted, divided({str(n): n % 7 / 5 for n in range(99)})))"

    def answer(seed: int) -> str:
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", divide]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({answer(seed) for seed in range(1, 7)}) == 1


def test_one_commit_more_is_the_next_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for count in range(612, 612 + shards.SHARDS):
        answers = {"rev-parse": "false", "rev-list": str(count)}
        monkeypatch.setattr(shards, "_git", lambda verb, *_, answers=answers: answers[verb])
        taken.append(shards.chosen(""))
    assert sorted(number for number, _ in taken) == list(range(1, shards.SHARDS + 1))
    assert {why for _, why in taken} == {"the number of commits"}


def test_a_shallow_clone_goes_by_the_time_of_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"rev-parse": "true", "rev-list": "1", "log": str(shards.SHARDS * 1000 + 1)}
    monkeypatch.setattr(shards, "_git", lambda verb, *_: answers[verb])
    assert shards.chosen("") == (2, "the time of the last commit, as this clone is shallow")


def test_without_a_repository_the_day_chooses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    number, why = shards.chosen("")
    assert 1 <= number <= shards.SHARDS
    assert why.startswith("the day")


@pytest.mark.parametrize("said", ["0", "-1", str(shards.SHARDS + 1), "first"])
def test_a_shard_that_does_not_exist_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"shards 1 to|invalid literal"):
        shards.chosen(said)


def test_a_shard_is_chosen_by_hand() -> None:
    assert shards.chosen("2") == (2, "SHARD")
