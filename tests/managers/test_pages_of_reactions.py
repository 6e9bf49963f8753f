"""A retry's parameters come from the author's code as well: such a retry shared its transaction with other ends."""

from typing import Any

import pytest

from crawler_lifecycle.managers import RetryRule
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from tests.managers.authors import Shops
from tests.managers.play import Play, play_of

pytestmark = pytest.mark.regression(
    "A retry with parameters from the author's code shared its transaction with other ends"
)


@pytest.mark.parametrize("own", [False, True])
def test_an_end_with_an_authors_method_has_its_own_transaction(own: bool) -> None:
    class Retrying(Shops):
        names = "abc"
        MAX_RETRIES = 1

    class Own(Retrying):
        def get_job_settings(self, override: dict[str, Any] | None = None) -> dict[str, Any]:
            return {**super().get_job_settings(override), "TOKEN": "fetched"}

    play = play_of(Own if own else Retrying)
    play.run(play.end(outcome="failed"))
    assert play.counts.running == 3
    assert play.kit.stage.calls.count("after react") == (3 if own else 1)


def test_a_job_that_fails_in_a_page_does_not_undo_the_reactions_before() -> None:
    class Broken(Shops):
        names = "abc"
        retry_policy = {"failed": RetryRule(tries=1, pause="soon")}  # type: ignore[arg-type]

    def end_all(play: Play) -> None:
        play.end_now(1)
        play.end_now(2, outcome="failed")

    play = play_of(Broken)
    with pytest.raises(AuthorsFailure) as failure:
        play.run(end_all)
    assert failure.value.phase == "bad_outcome_hook"
    assert failure.value.job == play.kit.stage.flow.store.managers.ended(play.kit.stage.flow.ref, 9)[0].key
    assert (play.counts.completed, play.counts.running) == (1, 2)
