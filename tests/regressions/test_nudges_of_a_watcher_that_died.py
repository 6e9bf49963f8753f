"""A watcher that died between its claim of a nudge and the signal, or while Temporal was away, left a run that nobody
could nudge any more: what changed was seen by its next look, up to a quarter of an hour later."""

import asyncio

from crawler_lifecycle.adapters.sql.nudges import SqlNudges
from tests.house import House
from tests.services.test_watcher import Workflows, deploy, watched


async def test_the_next_watcher_sends_them(house: House) -> None:
    plan = await asyncio.to_thread(deploy, house)
    (lost,) = await asyncio.to_thread(SqlNudges(house.database).claim, [plan.run.run_uid])
    workflows = Workflows()
    async with watched(house, workflows):
        await workflows.nudged(1)
        await asyncio.sleep(0.5)
    assert workflows.nudges == [lost]
