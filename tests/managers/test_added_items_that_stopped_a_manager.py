"""An item that people add, and whose request is impossible together with the manager's parameters: all starts ended."""

from collections.abc import Iterator
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.requests import AddItems
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.managers.authors.preview import added_items
from crawler_lifecycle.testing import ManagerPlay
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "An added item that was impossible together with the manager's parameters ended all starts"
)

MANY = {f"a{number}": "1" for number in range(99)}  # with the two of the command line, more than a run accepts


class Watched(Shops):
    names = "ab"
    default_max_jobs = 1

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[tuple[str, int]] = []

    def handle_schedule_error(self, e: Exception, **schedule_kwargs: Any) -> None:
        super().handle_schedule_error(e, **schedule_kwargs)
        self.errors.append((str(e), len(schedule_kwargs["job_args"])))


def test_an_impossible_added_item_is_refused_alone() -> None:
    play = ManagerPlay(Watched, "--spider-args", '{"x": "1", "y": "2"}', family="shops")
    play.cycle()
    added = tuple(added_items([{"spider": "books", **MANY}], None))
    play.managed.store.manager_doors.add_items(play.managed.id, AddItems(key="added", items=added))
    play.end()
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Watched)
    (item,) = [item for item in play.items if item.state == "refused"]
    assert manager.errors == [(item.problem, 101)]
    assert play.until_closed() == "finished_with_failures"
    assert [job.arguments["shop"] for job in play.started] == ["a", "b"]


def test_bad_parameters_of_the_manager_itself_refuse_no_item() -> None:
    class Broken(Watched):
        is_broken = False

        def get_job_settings(self, override: dict[str, Any] | None = None) -> dict[str, Any]:
            return {**super().get_job_settings(override), **({"DELAY": None} if self.is_broken else {})}

    play = ManagerPlay(Broken, family="shops")
    play.cycle()
    added = tuple(added_items([{"spider": "books", "shop": "c"}], None))
    play.managed.store.manager_doors.add_items(play.managed.id, AddItems(key="added", items=added))
    play.end()
    Broken.is_broken = True
    with pytest.raises(AuthorsFailure, match="DELAY"):
        play.cycle()
    Broken.is_broken = False
    play.until_closed()
    assert [job.arguments["shop"] for job in play.started] == ["a", "c", "b"]


@pytest.mark.parametrize("tag", ["", "x" * 129, "with\nline"])
def test_a_flow_tag_that_no_run_accepts_is_refused_at_once(tag: str) -> None:
    class Tags(Shops):
        def set_parameters_gen(self) -> Iterator[Any]:
            with pytest.raises(BadInput):
                self.append_flow_tag(tag)
            self.append_flow_tag("good")
            yield {"shop": "a"}

    play = ManagerPlay(Tags, family="shops")
    play.cycle()
    (job,) = play.started
    assert "good" in job.tags
    assert tag not in job.tags
