"""The engine's part for flows on a real server: nudges, and starts of crawls that may be repeated."""

from uuid import uuid4

from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.plays import Stage, played
from tests.kit.temporal.script import Script
from tests.kit.waiting import eventually_async

BOOKS = RunRequest(crawler="books")


def engine_of(stage: Stage) -> Engine:
    engine = Engine({}, stage.task_queue)
    engine._client = stage.client
    return engine


async def test_a_crawl_is_started_once_however_often_its_start_is_repeated(skipping: WorkflowEnvironment) -> None:
    script, workflow_id = Script(), f"flow-{uuid4()}-0-1"
    async with played(skipping, script) as stage:
        engine = engine_of(stage)
        await engine.start_crawl(workflow_id, BOOKS)
        await engine.start_crawl(workflow_id, BOOKS)
        await stage.client.get_workflow_handle(workflow_id).result()
        await engine.start_crawl(workflow_id, BOOKS)
        assert not (await engine.describe(workflow_id)).is_open
        assert await engine.failure(workflow_id) is None
    assert len(script.inputs("create_history_id")) == 1


async def test_a_crawl_that_failed_before_its_run_says_why(skipping: WorkflowEnvironment) -> None:
    script, workflow_id = Script(failing=["create_history_id"]), f"flow-{uuid4()}-0-1"
    async with played(skipping, script) as stage:
        engine = engine_of(stage)
        assert await engine.failure(workflow_id) is None
        await engine.start_crawl(workflow_id, BOOKS)
        message = await eventually_async(lambda: engine.failure(workflow_id))
        assert message == "create_history_id is told to fail"
        await engine.start_crawl(workflow_id, BOOKS)
        assert (await engine.describe(workflow_id)).end == "failed"


async def test_the_longest_id_of_a_flow_fits_into_its_summary(flows: FlowStage) -> None:
    """The server takes a summary of 400 bytes; a character may have four."""
    flow = await flows.run(Workflow(id="\N{SPIDER WEB}" * 128).add("a", plain))
    assert flow.states == {"a": "completed"}
    summary = await (await flows.supervisor(flow).describe()).static_summary()
    assert summary
    assert len(summary.encode()) <= 400


async def test_nudges_during_a_flow_start_no_second_supervisor(flows: FlowStage) -> None:
    flows.host.hold("a")
    flow, supervisor = await flows.start(Workflow().add("a", plain))
    await flows.host.begun["a"].wait()
    first = (await supervisor.describe()).run_id
    for _ in range(5):
        await flows.nudge(flow)
    flows.host.release("a")
    await supervisor.result()
    assert (await supervisor.describe()).run_id == first
