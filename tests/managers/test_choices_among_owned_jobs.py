from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.managers import FullJobParams
from tests.managers.authors import Shops
from tests.managers.play import nothing, play_of

pytestmark = pytest.mark.regression(
    "`get_owned_jobs` did not show the jobs that the same cycle had chosen, so a limit per domain by it did not hold"
)


class TwoEach(Shops):
    """At most two jobs of a domain at once, counted as authors count with shub-workflow."""

    states: tuple[str, ...] = ("running", "pending")

    def set_parameters_gen(self) -> Iterator[Any]:
        for page in range(4):
            yield {"domain": "a.example", "page": page, "tags": ["even" if page % 2 == 0 else "odd"]}

    def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
        domain = (params["spider_args"] or {})["domain"]
        jobs = list(self.get_owned_jobs(state=self.states))
        return [job["spider_args"]["domain"] for job in jobs].count(domain) < 2


class Running(TwoEach):
    """A single state is enough: a chosen job is about to run."""

    states = ("running",)


@pytest.mark.parametrize("manager", [TwoEach, Running])
def test_the_choices_of_the_cycle_are_among_the_owned_jobs(manager: type[TwoEach]) -> None:
    play = play_of(manager)
    play.run(nothing)
    assert [arguments["page"] for arguments in play.arguments] == ["0", "1"]
    assert play.counts.delayed == 2


def test_chosen_jobs_have_their_tags_and_no_key() -> None:
    seen: list[Any] = []

    class Watching(TwoEach):
        def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
            seen.append(list(self.get_owned_jobs(state=["pending"], has_tag=["even"])))
            assert not list(self.get_owned_jobs(state=["finished"]))
            return super().can_schedule_job_with_params(params)

    play_of(Watching).run(nothing)
    assert [[job["number"] for job in jobs] for jobs in seen[:2]] == [[], [1]]
    (job,) = seen[1]
    assert (job["key"], job["state"], job["spider_args"]["page"]) == ("", "pending", 0)
    assert "JOBSEQ=0000000001" in job["tags"]
