"""A stop that came while the run waited for its next look, or to try again, was heard after that look or try.

Whatever wait it ended swallowed the cancel that was to end the stages (so does asyncio.wait_for before Python 3.12).
"""

import asyncio

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from tests.kit.temporal.plays import Play, skipped_until
from tests.kit.temporal.script import STARTED, UNAVAILABLE, Script, in_turn
from tests.runs.stops import WAITS, until_asked

pytestmark = pytest.mark.regression(
    "A stop that came while the run waited for its next look, or to try again, was heard after that look or try"
)


@pytest.mark.parametrize(
    ("waiting", "done"),
    [
        ("deployment", "run_onetime_crawler"),
        ("main job", "get_main_job_status"),
        ("next look", "signal_pusher_started"),
    ],
)
@pytest.mark.long
async def test_nothing_more_is_done_before_the_stop(
    play: Play, skipping: WorkflowEnvironment, waiting: str, done: str
) -> None:
    script = Script(
        deployments=in_turn(UNAVAILABLE) if waiting == "deployment" else Script().deployments,
        statuses=in_turn(WAITS if waiting == "main job" else STARTED),
    )
    script.alive = until_asked(script)
    async with play(script) as stage, asyncio.timeout(30):
        with skipping.with_time_skipping_disabled():
            handle = await stage.start(RunRequest(crawler="books"))
        await skipped_until(skipping, handle, lambda: script.names.count(done) >= (2 if waiting == "deployment" else 1))
        state = {"waiting_for": ""}
        while not state["waiting_for"].startswith(("the next look", "another try", "the main job to start (")):
            state = await handle.query("state")
        before = len(script.names)
        await handle.signal("stop", {"actor": "ann"})
        assert (await handle.result())["reason"] == "stopped"
    assert script.names[before] == "add_cancellation_log_to_db"
