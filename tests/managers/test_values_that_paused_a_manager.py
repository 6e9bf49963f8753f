from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import Item
from crawler_lifecycle.managers.authors.preview import added_items
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "A value of the wrong kind in a single parameter set paused the whole manager: the job alone is refused"
)

BAD = [
    ({"units": "much"}, "units: expected a number, not 'much'"),
    ({"units": [2]}, "units: expected a number, not '[2]'"),
    ({"spider_args": ["x"]}, "spider_args: expected a dict, not list"),
    ({"job_settings": 5}, "job_settings: expected a dict, not int"),
    ({"tags": "north"}, "tags: expected a list of texts"),
    ({"tags": [1, "north"]}, "tags: expected a list of texts"),
    ({"spider": 7}, "spider: expected a text, not int"),
    ({"depth": float("nan")}, "parameters: is no JSON: "),
    ({"name": "\ud800"}, "parameters: is no JSON: "),
    (Item({"shop": "x"}, labels="abc"), "labels: expected a list of texts"),
]


class Between(Shops):
    """One bad value between two good parameter sets."""

    bad: Any = None

    def set_parameters_gen(self) -> Iterator[Any]:
        yield {"shop": "a"}
        yield self.bad
        yield {"shop": "b"}


@pytest.mark.parametrize(("bad", "problem"), BAD, ids=str)
def test_a_bad_value_from_the_generator_is_refused_alone(bad: Any, problem: str) -> None:
    play = ManagerPlay(type("Bad", (Between,), {"bad": bad}))
    assert play.until_closed() == "finished_with_failures"
    assert [job.arguments["shop"] for job in play.started] == ["a", "b"]
    (refused,) = [item for item in play.items if item.state is ItemState.REFUSED]
    assert str(refused.problem).startswith(problem)


@pytest.mark.parametrize(("bad", "problem"), BAD[:6], ids=str)
def test_a_bad_value_in_an_added_job_is_refused_alone(bad: Any, problem: str) -> None:
    class Adding(Shops):
        names = "a"

        def on_start(self, resumed: bool = False) -> None:
            self.add_job("books", bad)

    play = ManagerPlay(Adding)
    assert play.until_closed() == "finished_with_failures"
    assert [item.problem for item in play.items if item.state is ItemState.REFUSED] == [problem]
    assert len(play.started) == 1
    with pytest.raises(BadInput, match="item 1"):
        list(added_items([bad], "books"))


@pytest.mark.parametrize(("bad", "problem"), BAD[:6], ids=str)
def test_a_bad_value_in_a_retry_fails_its_job_alone(bad: Any, problem: str) -> None:
    class Retrying(Shops):
        names = "ab"
        MAX_RETRIES = 1

        def get_retry_override(self, spider: str, outcome: str, job_args_override: Any, jobkey: str) -> Any:
            return bad if job_args_override["spider_args"]["shop"] == "a" else {}

    play = ManagerPlay(Retrying)
    assert play.until_closed("failed") == "finished_with_failures"
    assert [job.arguments["shop"] for job in play.started] == ["a", "b", "b"]
    assert any("job 1 is not tried again" in line and problem in line for line in play.lines)


@pytest.mark.parametrize("delay", ["soon", None, float("inf"), 1e300])
def test_a_pause_that_is_no_number_fails_its_job_alone(delay: Any) -> None:
    class Waiting(Shops):
        names = "ab"
        MAX_RETRIES = 1

        def retry_delay(self, outcome: str, number: int) -> float:
            return delay  # type: ignore[no-any-return]

    play = ManagerPlay(Waiting)
    assert play.until_closed("failed") == "finished_with_failures"
    assert len(play.started) == 2


def test_a_bad_value_at_a_start_refuses_its_job_alone() -> None:
    class Starting(Shops):
        names = "ab"

        def schedule_spider_with_jobargs(self, job_args_override: Any = None, spider: str | None = None) -> Any:
            if job_args_override["spider_args"]["shop"] == "a":
                job_args_override = {**job_args_override, "units": "much"}
            return super().schedule_spider_with_jobargs(job_args_override, spider)

    play = ManagerPlay(Starting)
    assert play.until_closed() == "finished_with_failures"
    assert [job.arguments["shop"] for job in play.started] == ["b"]
    assert next(item.problem for item in play.items) == "units: expected a number, not 'much'"
