"""Does a known hole stop a release, unless somebody has said why it need not?"""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.ci.known_holes import Accepted, judged, read_accepted

TODAY = date(2026, 11, 20)
HOLE = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.0"]}
LEAKY: dict[str, Any] = {"name": "leaky", "version": "1.0", "vulns": [HOLE]}
SOUND: dict[str, Any] = {"name": "sound", "version": "1.0", "vulns": []}
UNKNOWN: dict[str, Any] = {"name": "private", "skip_reason": "not found"}


def test_a_hole_fails_and_is_named() -> None:
    verdict = judged({"dependencies": [LEAKY, SOUND, UNKNOWN]}, [], TODAY)
    assert verdict.fails
    assert verdict.lines[0] == "leaky 1.0: PYSEC-1, mended in 2.0"
    assert "private" in verdict.lines[1]


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-1"])
@pytest.mark.parametrize(("until", "fails"), [(TODAY, False), (date(2026, 11, 19), True)])
def test_one_that_was_accepted_passes_until_its_day(name: str, until: date, fails: bool) -> None:
    assert judged({"dependencies": [LEAKY]}, [Accepted(name, "never called", until)], TODAY).fails is fails


@pytest.mark.parametrize("answer", [None, {"dependencies": []}, {"dependencies": [UNKNOWN]}])
def test_without_an_answer_it_says_so(answer: dict[str, Any] | None) -> None:
    verdict = judged(answer, [], TODAY)
    assert not verdict.fails
    assert "does not answer" in verdict.lines[0]


def test_nothing_known_is_fine() -> None:
    assert not judged({"dependencies": [SOUND]}, [], TODAY).fails


def test_the_file_of_those_accepted_can_be_read(tmp_path: Path) -> None:
    assert isinstance(read_accepted(), list)
    path = tmp_path / "accepted.toml"
    path.write_text('[[hole]]\nid = "CVE-1"\nreason = "never called"\nuntil = 2027-06-30\n')
    assert read_accepted(path) == [Accepted("CVE-1", "never called", date(2027, 6, 30))]
