"""A cron line that Temporal would not understand, or that never fires, is told from one that does."""

import pytest

from crawler_lifecycle.schedules.model import is_skipped_in, problem_of

FIRES = [
    "0 3 * * *",
    "*/15 8-18 * * mon-fri",
    "5/20 0 1,15 JAN-mar 0",
    "0 0 29 2 *",
    "0 0 29 2 7",
    "0 0 31 4,5 *",
    "0 0 13 * fri",
    " 0  0 * * 6 ",
    "@daily",
    "@weekly",
]
WRONG = {
    "0 0 30 2 *": "never fires",
    "0 0 31 4,6,9,11 *": "never fires",
    "0 0 30-31 feb mon": "never fires",
    "": "five fields",
    "* * * *": "five fields",
    "0 0 3 * * *": "five fields",
    "0 0 1 1 * 2020": "five fields",
    "@every 5m": "five fields",
    "@reboot": "five fields",
    "TZ=UTC 0 3 * * *": "five fields",
    "60 3 * * *": "minute is 0 to 59",
    "0 24 * * *": "hour is 0 to 23",
    "0 0 0 * *": "day of the month is 1 to 31",
    "0 0 * 13 *": "month is 1 to 12",
    "0 0 * foo *": "month is 1 to 12",
    "0 0 * * 8": "day of the week is 0 to 7",
    "-1 3 * * *": "'-1' is no minute",
    "0 0 L * *": "'l' is no day of the month",
    "0 0 ? * 1": "is no day of the month",
    "*/0 * * * *": "empty range",
    "30-10 * * * *": "empty range",
    "1,,2 * * * *": "'' is no minute",
    "1-2-3 * * * *": "is no minute",
    "٣ * * * *": "is no minute",
    "* * * * *" + "," * 300: "five fields",
}


@pytest.mark.parametrize("line", FIRES)
def test_a_line_that_fires(line: str) -> None:
    assert problem_of(line) is None


@pytest.mark.parametrize(("line", "problem"), WRONG.items())
def test_a_line_that_does_not(line: str, problem: str) -> None:
    assert problem in (problem_of(line) or "nothing")


@pytest.mark.parametrize(
    ("line", "zone"),
    [
        ("30 2 25-31 3 0", "Europe/Berlin"),
        ("*/15 2 25-31 3 sun", "Europe/Berlin"),
        ("30 2 8-14 3 7", "America/New_York"),
    ],
)
def test_a_line_whose_times_the_clocks_skip(line: str, zone: str) -> None:
    assert is_skipped_in(line, zone, 2026)
    assert not is_skipped_in(line, "UTC", 2026)


@pytest.mark.parametrize(
    ("line", "zone"),
    [
        ("30 2 29 3 *", "Europe/Berlin"),  # not every year's day
        ("30 2 25-31 3 *", "Europe/Berlin"),
        ("30 2-3 25-31 3 0", "Europe/Berlin"),
        ("30 2 25-31 10 0", "Europe/Berlin"),  # there twice
        ("30 2 25-31 3 0", "America/New_York"),
        ("30 2 29 2 1", "America/New_York"),
        ("0 0 29 2 0", "Europe/Berlin"),
        ("@yearly", "Europe/Berlin"),
        ("30 2 25-31 3 0", "Europe/Atlantis"),  # Temporal refuses it
        ("30 2 25-31 3 0", "../Europe/Berlin"),
    ],
)
def test_a_line_of_which_a_time_is_there(line: str, zone: str) -> None:
    assert not is_skipped_in(line, zone, 2026)
