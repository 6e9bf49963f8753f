"""A job that was over before the dispatcher had recorded its deployment: the look that saw its end did not write it, as
the row had changed since it was read, but it answered the nudge. The end was in the database with the next look that
was due, up to a quarter of an hour later."""

import pytest

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script

pytestmark = pytest.mark.regression(
    "The end of a job that was over before its deployment was recorded was stored up to 15 minutes late"
)

END = TaskChange(task=0, attempt=1, version=1, status=TaskStatus.SUCCEEDED)


@pytest.mark.long
async def test_it_is_looked_at_again_at_once(play: Play) -> None:
    script = Script(
        alive=lambda look: 1 if look < 2 else 0,
        changes=lambda look: [END],
        stale=lambda look: 1 if look == 1 else 0,
    )
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    first, second = script.inputs("count_alive_tasks")
    assert first.next_look_at == second.next_look_at, "the second look is not the one that was due anyway"


async def test_what_was_written_is_not(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 2 else 0, changes=lambda look: [END])
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    first, second = script.inputs("count_alive_tasks")
    assert first.next_look_at < second.next_look_at
