"""A nudge that was heard while the main job was waited for was never answered: no further one could come, and what
happened in the next minute was seen at its end."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.model import MainJobStatus
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import STARTED, Script, in_turn

pytestmark = pytest.mark.regression(
    "A nudge during the wait for the main job was never answered, so no further nudge could come"
)

WAITS = MainJobStatus(cause="capacity")


@pytest.mark.long
async def test_the_first_look_comes_soon_if_the_deployment_was_nudged(
    play: Play, skipping: WorkflowEnvironment
) -> None:
    script = Script(statuses=in_turn(WAITS, STARTED), alive=lambda look: 0)
    async with play(script) as stage, asyncio.timeout(30):
        with skipping.with_time_skipping_disabled():
            handle = await stage.start(RunRequest(crawler="books"))
        await skipping.fast_forward(handle, timedelta(seconds=7))  # now it pauses before it asks again
        while "get_main_job_status" not in script.names:
            await asyncio.sleep(0.01)
        await handle.signal("nudge", 1)
        await handle.result()
        times = {event.event_type: event.event_time.ToDatetime() for event in (await handle.fetch_history()).events}
    assert max(times.values()) - min(times.values()) < timedelta(seconds=30)
