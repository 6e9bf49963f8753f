"""Shards divide a suite that takes long. Each run of CI takes one shard of each such suite.

A suite is divided by groups: tests that need each other stay together. A group is a file, the name that
`@pytest.mark.shard(name)` gives to tests, or a single test of the generated ones. Tests with
`@pytest.mark.closing(prefix)` check what the tests before them left behind; they run in every shard that has a group
of this prefix.
"""

import subprocess
import time
from collections.abc import Iterable, Mapping
from math import fsum

import pytest

SHARDS = 8
A_TEST = 0.2
# Minutes of the groups for which A_TEST times their tests is far off. They balance the shards and decide nothing else;
# `make ci-all` prints what the slowest tests take.
MINUTES = {
    "mariadb": 5.5,
    "outages on sqlite": 1.7,
    "sqlite: activities": 11.0,
    "sqlite: managers, 0": 1.5,
    "sqlite: managers, 1": 1.5,
    "sqlite: managers, calls that fail": 1.5,
    "tests/clusters/contracts/test_cluster.py": 1.5,
    "tests/deploy/test_image.py": 3.0,
    "tests/kubernetes/test_acting.py": 2.0,
    "tests/kubernetes/test_adapter.py": 3.0,
    "tests/kubernetes/test_crowd.py": 5.0,
    "tests/kubernetes/test_fates.py": 1.0,
    "tests/kubernetes/test_lifecycle.py": 4.0,
    "tests/kubernetes/test_outages.py": 4.0,
    "tests/kubernetes/test_programs.py": 0.3,
    "tests/kubernetes/test_rights.py": 0.5,
    "tests/kubernetes/test_scale.py": 2.0,
    "tests/kubernetes/test_single_answers.py": 2.0,
    "tests/kubernetes/test_single_ends.py": 3.0,
    "tests/kubernetes/test_single_evidence.py": 3.0,
    "tests/kubernetes/test_single_requests.py": 4.0,
    "tests/kubernetes/test_single_waits.py": 2.0,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", type=checked, help=f"run only this shard (1 to {SHARDS}) of the chosen tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    number = config.getoption("--shard")
    if number is None:
        return
    taken = {id(item) for item in shard_of(items, number)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in taken])
    items[:] = [item for item in items if id(item) in taken]


def shard_of(items: Iterable[pytest.Item], number: int) -> list[pytest.Item]:
    """Return the tests of this shard in the order in which they were given."""
    items = list(items)
    groups: dict[str, float] = {}
    for item in items:
        if not item.get_closest_marker("closing"):
            groups[group(item)] = groups.get(group(item), 0.0) + A_TEST
    taken = divided({name: MINUTES.get(name, minutes) for name, minutes in groups.items()})[number - 1]
    return [item for item in items if _belongs(item, taken)]


def divided(minutes: Mapping[str, float], shards: int = SHARDS) -> list[set[str]]:
    """Distribute the groups: the longest first, each to the shard with the least to do.

    The sums are exact: processes differ in the order of their sets, and all have to take the same tests.
    """
    parts: list[set[str]] = [set() for _ in range(shards)]
    for name in sorted(minutes, key=lambda name: (-minutes[name], name)):
        min(parts, key=lambda part: fsum(minutes[each] for each in part)).add(name)
    return parts


def group(item: pytest.Item) -> str:
    if item.get_closest_marker("sequences"):
        return item.nodeid
    marker = item.get_closest_marker("shard")
    return str(marker.args[0]) if marker else item.nodeid.partition("::")[0]


def _belongs(item: pytest.Item, taken: set[str]) -> bool:
    marker = item.get_closest_marker("closing")
    return any(name.startswith(marker.args[0]) for name in taken) if marker else group(item) in taken


def checked(said: str) -> int:
    """Return the number of a shard; raise ValueError for anything else."""
    if not 1 <= (number := int(said)) <= SHARDS:
        raise ValueError(f"there are shards 1 to {SHARDS}")
    return number


def chosen(said: str) -> tuple[int, str]:
    """Return the shard of this run, and what chose it."""
    if said:
        return checked(said), "SHARD"
    count, why = _rotation()
    return count % SHARDS + 1, why


def _rotation() -> tuple[int, str]:
    """Return a number that differs between runs of CI. A shallow clone cannot count its commits."""
    if _git("rev-parse", "--is-shallow-repository") == "false":
        return int(_git("rev-list", "--count", "HEAD")), "the number of commits"
    if made := _git("log", "-1", "--format=%ct"):
        return int(made), "the time of the last commit, as this clone is shallow"
    return int(time.time() // 86400), "the day, as this is no repository"


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
