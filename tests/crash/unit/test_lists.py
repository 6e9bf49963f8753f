"""The lists of calls that no course comes to name calls of activities."""

from tests.crash.calls import ELSEWHERE, SAID_OF_FAILURES, of_activities


def test_calls_that_no_course_comes_to_are_calls_of_activities() -> None:
    """A renamed call was noticed by a single shard of the matrix, after eleven minutes."""
    assert of_activities() > ELSEWHERE | SAID_OF_FAILURES
