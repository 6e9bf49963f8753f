"""Each requirement for graphs has a test: a name that begins with its number, in three digits, says which one.

`grep -rn "def test_041" tests` finds the tests of a number in all folders. `plays.py` plays a flow by hand, in memory.
"""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
LINES = {
    "building": [*range(1, 6), *range(7, 14), *range(15, 25)],
    "push, identity and update": [25, 26, 27, 29],
    "runs and states": [*range(30, 39), 40, 41],
    "results and contexts": [*range(42, 51)],
    "status, jobs and waits": [*range(51, 61)],
    "cancel and retry": [*range(61, 66), 67, 68],
    "grafts and appends": [69, 71, 72, 73],
    "pictures": [74, 75, 76, 77, 79],
    "housekeeping and API": [*range(80, 85)],
}
OWED: set[int] = set()  # lines without a test until now


def names_by_line() -> dict[int, list[str]]:
    """Return the names of the tests by their number."""
    names: dict[int, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\d{3}_\w+)", path.read_text(), re.M):
            names.setdefault(int(name[5:8]), []).append(name)
    return names


def test_each_line_has_a_test() -> None:
    lines = {number for numbers in LINES.values() for number in numbers}
    missing = lines - names_by_line().keys()
    assert missing == OWED, f"without a test: {sorted(missing - OWED)}; no more owed: {sorted(OWED - missing)}"


def test_no_test_names_a_line_that_does_not_exist() -> None:
    lines = {number for numbers in LINES.values() for number in numbers}
    assert {number: names for number, names in names_by_line().items() if number not in lines} == {}
