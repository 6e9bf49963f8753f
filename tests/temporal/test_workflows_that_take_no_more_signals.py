"""A workflow that had received as many signals as its server allows (10,000) was told of no stop: that fell back to a
cancel only where the server was too busy for a signal, or the workflow about to end."""

from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import EventType

from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.temporal.servers import start_real_time

pytestmark = pytest.mark.regression(
    "A workflow that had received 10,000 signals, the most its server allows, learned of no stop"
)

TWO_SIGNALS = ("--dynamic-config-value", "history.maximumSignalsPerExecution=2")


async def test_a_stop_that_comes_after_too_many_signals_is_a_cancel() -> None:
    async with await start_real_time(*TWO_SIGNALS) as server:
        client, workflow_id = server.client, f"crawl-{uuid4()}"
        address = client.service_client.config.target_host
        engine = Engine({"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": client.namespace}, "crawls")
        handle = await client.start_workflow("CrawlerLifecycleWorkflow", id=workflow_id, task_queue="of-nobody")
        assert [await engine.stop(workflow_id, StopRequest()) for _ in range(3)] == ["signal", "signal", "cancel"]
        kinds = [event.event_type async for event in handle.fetch_history_events()]
        assert kinds.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED) == 1
        await handle.terminate("it was only there to be stopped")
        with pytest.raises(NotFound):
            await engine.stop(workflow_id, StopRequest())
