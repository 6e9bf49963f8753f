"""The reason of `flow cancel` and `flow stop` did not reach the runs: their timeline said that no reason was given."""

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.rules.messages import StopAttempts
from tests.activities.flow_crawls import make_run, start
from tests.contracts.flows import Flow, pushed
from tests.house import House


@pytest.fixture
def flow(database: Database) -> Flow:
    return pushed(database, Workflow().add("known", crawl("books")).add("beside", crawl("books")))


def stop(house: House, flow: Flow) -> None:
    house.do(house.flow_crawls.stop_attempts, StopAttempts(flow=flow.flow, flow_id=flow.id, members="0-1"))


def test_the_reason_is_in_the_runs_timeline(house: House, flow: Flow) -> None:
    start(house, flow, "known", "beside")
    run = make_run(house, flow, "known")
    flow.cancel("known", reason="too slow")
    flow.cancel("beside", reason="wrong site")
    stop(house, flow)
    reasons = {request.reason for _, request in house.supervisors.stopped}
    assert reasons == {"too slow", "wrong site"}
    lines = [line for line in house.store.records.details(run.run_id).log if line.actor == f"flow {flow.id}"]
    assert [("too slow" in line.message) for line in lines] == [True]


def test_a_stop_of_the_flow_passes_its_reason_on(house: House, flow: Flow) -> None:
    start(house, flow, "known", "beside")
    flow.cancel(reason="too slow")
    stop(house, flow)
    assert {request.reason for _, request in house.supervisors.stopped} == {"too slow"}
