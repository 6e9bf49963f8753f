"""A closing notice that its receiver did not take in two minutes was sent again when the archive was made: behind
hundreds of other archives, hours later."""

import asyncio

import pytest

from crawler_lifecycle.model.requests import RunRequest
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script

pytestmark = pytest.mark.regression(
    "A closing notice that failed for two minutes was repeated only after hundreds of archives, hours later"
)

NOTICE, ARCHIVE = "signal_pusher_finished", "export_supporting_files"
TRIES = 2  # in vain, before the archive is made


@pytest.mark.long
async def test_a_closing_notice_is_sent_again_while_the_archive_waits(play: Play) -> None:
    script, sent_again = Script(failures={NOTICE: TRIES}), asyncio.Event()

    async def notice() -> None:
        if script.names.count(NOTICE) > TRIES:
            sent_again.set()

    async def archive() -> None:
        await sent_again.wait()

    script.before |= {NOTICE: notice, ARCHIVE: archive}
    async with play(script) as stage, asyncio.timeout(60):
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert script.names.count(NOTICE) == TRIES + 1
