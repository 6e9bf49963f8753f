"""What a soak does is chosen by its seed alone, and what it tells of healing is what was seen."""

from itertools import pairwise

import pytest

from tests.chaos.healing import Span, healed
from tests.chaos.lives import lives
from tests.chaos.timeline import forecast

KINDS = ["a killed", "b frozen", "c away"]


def test_the_same_seed_is_the_same_course_of_things() -> None:
    first, again, other = (list(lives(seed, 600.0)) for seed in (7, 7, 8))
    assert first == again != other
    assert list(forecast(7, 0, 600.0, KINDS)) == list(forecast(7, 0, 600.0, KINDS))
    assert list(forecast(7, 0, 600.0, KINDS)) != list(forecast(7, 1, 600.0, KINDS))


def test_more_minutes_only_add_to_it() -> None:
    short, long = (list(lives(7, seconds)) for seconds in (60.0, 600.0))
    assert long[: len(short)] == short


def test_faults_of_one_lane_follow_each_other() -> None:
    dues = list(forecast(7, 0, 3600.0, KINDS))
    assert {due.fault for due in dues} == set(KINDS)
    assert all(first.at + first.lasts < second.at for first, second in pairwise(dues))


def test_every_life_has_a_code_for_each_task_and_deeds_in_order() -> None:
    for life in lives(7, 3600.0):
        assert len(life.codes) == life.request.tasks
        assert [at for at, _ in life.deeds] == sorted(at for at, _ in life.deeds)


@pytest.mark.parametrize(
    ("wrong", "faults", "seconds"),
    [
        ((10.0, 11.0), [], None),  # nothing was in its way
        ((10.0, 11.0), [(2.0, 9.0)], None),
        ((10.0, 30.0), [(12.0, 25.0)], 5.0),
        ((10.0, 30.0), [(5.0, 20.0), (12.0, 25.0)], 5.0),
        ((10.0, 30.0), [(5.0, 20.0), (25.0, 40.0)], 10.0),  # right in spite of the second
        ((10.0, 30.0), [(5.0, 40.0)], 20.0),
    ],
)
def test_healing_counts_from_the_last_fault_that_was_over(
    wrong: Span, faults: list[Span], seconds: float | None
) -> None:
    assert healed(wrong, faults) == seconds
