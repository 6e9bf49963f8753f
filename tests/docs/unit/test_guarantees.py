"""The tests that prove a promise of docs/guarantees.md exist, and every promise has one."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
PROMISED, _, NOT_PROMISED = (TESTS.parent / "docs" / "guarantees.md").read_text().partition("\n## Not promised\n")
ROW = re.compile(r"^\| (\d+)? ?\| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_promise_is_proved_by_tests_that_exist() -> None:
    defined = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    rows = ROW.findall(PROMISED)[1:]
    assert [number for number, _, _ in rows if number] == [str(number) for number in range(1, 12)]
    named = {promise: set(re.findall(r"`(test_\w+)`", proofs)) for _, promise, proofs in rows}
    assert [promise for promise, tests in named.items() if not tests] == []
    assert set().union(*named.values()) - defined == set()


def test_what_is_not_promised_stays() -> None:
    assert len(re.findall(r"^- \*\*", NOT_PROMISED, re.MULTILINE)) >= 20
