import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.rules.messages import StopAttempts
from tests.flows.flow_crawls import make_run, start
from tests.kit.data.flows import Flow, pushed
from tests.kit.service.rig import Rig

pytestmark = pytest.mark.regression(
    "The reason of `flow cancel` and `flow stop` did not reach the runs: their timeline said that no reason was given"
)


@pytest.fixture
def flow(database: Database) -> Flow:
    return pushed(database, Workflow().add("known", crawl("books")).add("beside", crawl("books")))


def stop(rig: Rig, flow: Flow) -> None:
    rig.do(rig.flow_crawls.stop_attempts, StopAttempts(flow=flow.flow, flow_id=flow.id, members="0-1"))


def test_the_reason_is_in_the_runs_timeline(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known", "beside")
    run = make_run(rig, flow, "known")
    flow.cancel("known", reason="too slow")
    flow.cancel("beside", reason="wrong site")
    stop(rig, flow)
    reasons = {request.reason for _, request in rig.supervisors.stopped}
    assert reasons == {"too slow", "wrong site"}
    lines = [line for line in rig.store.records.details(run.run_id).log if line.actor == f"flow {flow.id}"]
    assert [("too slow" in line.message) for line in lines] == [True]


def test_a_stop_of_the_flow_passes_its_reason_on(rig: Rig, flow: Flow) -> None:
    start(rig, flow, "known", "beside")
    flow.cancel(reason="too slow")
    stop(rig, flow)
    assert {request.reason for _, request in rig.supervisors.stopped} == {"too slow"}
