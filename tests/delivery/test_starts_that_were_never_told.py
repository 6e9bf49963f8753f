"""The start of a short run was told by nobody: on a busy machine one try fitted into ten seconds,
and after the look at which the run was over there was one more, which failed."""

import pytest
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.model.requests import RunRequest
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script

pytestmark = pytest.mark.regression(
    "No notice of the start of a short run was sent: on a busy machine one try fitted into ten seconds"
)

STARTED = "signal_pusher_started"


async def test_the_last_chance_to_tell_the_start_is_more_than_one_try(play: Play) -> None:
    script, told = Script(), list[str]()

    async def refuse() -> None:
        closed = script.names.count("count_alive_tasks")
        if not closed or STARTED not in script.names[script.names.index("count_alive_tasks") : -1]:
            raise ApplicationError("nobody answers", type="TemporaryError")
        told.append(STARTED)

    script.before = {STARTED: refuse}
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert told == [STARTED], "the first try after the look fails, the second does not"
    assert script.looks == 1
