from collections import Counter
from collections.abc import Sequence

import pytest

from crawler_lifecycle.managers.authors.parameters import FullJobParams
from crawler_lifecycle.model.manager_items import Job
from crawler_lifecycle.testing import ManagerPlay
from crawler_lifecycle.testing.manager_link import PlayedLink
from tests.managers.authors import Shops

pytestmark = pytest.mark.regression(
    "The documented throttle over many delayed items: each question read all running jobs, and items were asked twice"
)


class Throttled(Shops):
    names = [str(number) for number in range(500)]
    default_max_jobs = 50

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def can_schedule_job_with_params(self, params: FullJobParams) -> bool:
        self.asked[str((params["spider_args"] or {})["shop"])] += 1
        return self.spider_running_count(params["spider"]) < 4


def test_a_cycle_asks_once_about_each_item_and_reads_the_running_jobs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    def running(link: PlayedLink) -> Sequence[Job]:
        nonlocal reads
        reads += 1
        return read_running(link)

    read_running = PlayedLink.running
    monkeypatch.setattr(PlayedLink, "running", running)
    play = ManagerPlay(Throttled, family="shops")
    play.cycle()
    manager = play.manager
    assert isinstance(manager, Throttled)
    assert (len(play.running), reads) == (4, 1)
    assert (len(manager.asked), set(manager.asked.values())) == (500, {1})
    play.end(1)
    play.cycle()
    assert (len(play.running), reads) == (4, 2)
    assert set(manager.asked.values()) == {1, 2}
