"""The tests that `docs/internals/flow-proofs.md` names exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
DOCUMENT = TESTS.parent / "docs" / "internals" / "flow-proofs.md"
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
PROMISES = {
    *(f"B{number}" for number in range(1, 8)),
    *(f"F{number}" for number in range(1, 8)),
    *(f"P{number}" for number in range(1, 12)),
    *(f"N{number}" for number in range(1, 7)),
}
ROW = re.compile(r"^\| ([BFPN]\d+) \|(.*)\|$", re.MULTILINE)


def test_every_named_test_exists() -> None:
    defined = {name for path in TESTS.rglob("test_*.py") for name in DEFINED.findall(path.read_text())}
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text()))
    assert named - defined == set()
    assert len(named) > 50


def test_every_named_place_exists() -> None:
    places = set(re.findall(r"`(tests/[\w/.]+)`", DOCUMENT.read_text()))
    assert {place for place in places if not (TESTS.parent / place).exists()} == set()


def test_every_promise_has_a_test() -> None:
    rows = ROW.findall(DOCUMENT.read_text())
    assert sorted(number for number, _ in rows) == sorted(PROMISES)
    assert [number for number, text in rows if not re.search(r"`test_\w+`", text)] == []
