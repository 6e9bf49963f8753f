"""Every decision in docs/decisions has its number, a date and a status."""

import re
from pathlib import Path

DECISIONS = sorted((Path(__file__).parents[3] / "docs" / "decisions").glob("*.md"))
HEAD = re.compile(r"# (\d+)\. .+\n\n\d{4}-\d\d-\d\d.*\n\nStatus: (?:accepted|superseded by (\d+))\n")


def test_every_decision_has_a_number_a_date_and_a_status() -> None:
    numbers = {int(path.name[:4]) for path in DECISIONS}
    assert numbers == set(range(1, len(DECISIONS) + 1))
    for path in DECISIONS:
        head = HEAD.match(path.read_text())
        assert head, path.name
        assert int(head[1]) == int(path.name[:4])
        assert head[2] is None or int(head[2]) in numbers - {int(head[1])}, path.name
