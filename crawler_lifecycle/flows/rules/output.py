"""Output: the last lines by a manager's object, for the record."""

from collections.abc import Sequence

from crawler_lifecycle.flows.model.manager_records import OutputLine

MOST_LINES = 200
MOST_CHARACTERS = 20_000  # in all lines
LONGEST_LINE = 1000  # characters


def last_lines(former: Sequence[OutputLine], new: Sequence[OutputLine]) -> list[OutputLine]:
    """Return the last lines. A new line among the previous lines comes from a repeated call."""
    known = {(line.at, line.text) for line in former}
    lines = [*former, *(line for line in new if (line.at, line.text) not in known)][-MOST_LINES:]
    rest = MOST_CHARACTERS
    for place in range(len(lines) - 1, -1, -1):
        rest -= len(lines[place].text)
        if rest < 0:
            return lines[place + 1 :]
    return lines
