import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.managers.authors.parameters import StopRetry
from crawler_lifecycle.model.manager_items import CodeProblem
from crawler_lifecycle.testing import ManagerPlay
from tests.kit.data.managers import Managed, managed
from tests.kit.service.commands import Crawlctl
from tests.managers.authors import shops_with

pytestmark = pytest.mark.regression(
    "An end without a reaction looked like a crawl under way, and the reason in StopRetry was lost"
)

WAIT = "finished; the manager has not processed the end yet"


@pytest.fixture
def flow(stored_in: Database) -> Managed:
    """A manager with a crawl whose end has no reaction yet."""
    flow = managed(stored_in)
    flow.offer("a", read=1)
    flow.ended_run(flow.started(1))
    return flow


def test_an_end_says_that_it_waits_for_the_manager(flow: Managed, crawlctl: Crawlctl) -> None:
    assert WAIT in crawlctl("flow", "jobs", flow.id).stdout
    assert f"reaction: {WAIT}\n" in crawlctl("flow", "why", flow.id, "1").stdout
    assert f"reaction: {WAIT}" in crawlctl("flow", "why", flow.id).stdout
    flow.managers.pause(flow.mine, CodeProblem(phase="finished_ok_hook", error="ValueError: no"))
    shown = f"reaction: {WAIT}: finished_ok_hook failed, and the manager waits for a resume of the flow"
    assert shown in crawlctl("flow", "why", flow.id, "1").stdout
    flow.react(flow.ended()[0])
    assert WAIT not in crawlctl("flow", "jobs", flow.id).stdout


@pytest.mark.parametrize("reason", ["the shop is banned", ""])
def test_the_timeline_says_why_a_job_is_not_tried_again(reason: str) -> None:
    def stops(*_: object) -> None:
        raise StopRetry(*([reason] if reason else []))

    play = ManagerPlay(shops_with(names="a", MAX_RETRIES=2, get_retry_override=stops))
    assert play.until_closed("failed") == "finished_with_failures"
    lines = [line for line in play.lines if "not tried again" in line]
    assert lines == ([f"job 1 is not tried again: {reason}"] if reason else [])
