"""The tests that `docs/flow-proofs.md` names exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "flow-proofs.md"
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def test_every_named_test_exists() -> None:
    defined = {name for path in TESTS.rglob("test_*.py") for name in DEFINED.findall(path.read_text())}
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text()))
    assert named - defined == set()
    assert len(named) > 50


def test_every_named_place_exists() -> None:
    places = set(re.findall(r"`(tests/[\w/.]+)`", DOCUMENT.read_text()))
    assert {place for place in places if not (TESTS.parent / place).exists()} == set()
