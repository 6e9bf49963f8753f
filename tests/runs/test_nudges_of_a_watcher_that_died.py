"""A watcher that died between its claim of a nudge and the signal, or while Temporal was away, left a run that nobody
could nudge any more: what changed was seen by its next look, up to a quarter of an hour later. So did a claim that the
database carried out while its answer was lost."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import pytest

from crawler_lifecycle.assembly.store import SqlClaims, SqlStore
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.supervision import Nudge
from crawler_lifecycle.runs.processes import watcher
from tests.kit.service.rig import Rig
from tests.runs.watching import Workflows, deploy, watched

pytestmark = pytest.mark.regression(
    "A watcher that died between its claim of a nudge and the signal left a run that nobody could nudge"
)


async def test_the_next_watcher_sends_them(rig: Rig) -> None:
    plan = await asyncio.to_thread(deploy, rig)
    (lost,) = await asyncio.to_thread(SqlStore(rig.database).claims.claim_nudges, [plan.run.run_uid])
    workflows = Workflows()
    async with watched(rig, workflows):
        await workflows.nudged(1)
        await asyncio.sleep(0.5)
    assert workflows.nudges == [lost]


@pytest.mark.long
async def test_a_nudge_that_nobody_answers_is_repeated_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the workers are away, signals would pile up until Temporal takes no stop any more."""
    monkeypatch.setattr(watcher, "REPEAT_SECONDS", 0.01)
    plan = await asyncio.to_thread(deploy, rig)
    workflows = Workflows()
    async with watched(rig, workflows):
        await workflows.nudged(1)
        for _ in range(4):
            rig.bench.layout.announce_change(plan.run.run_uid)
            await asyncio.sleep(0.3)
    assert len(workflows.nudges) <= 2


class LosesAnAnswer(SqlClaims):
    lost = 0

    def claim_nudges(self, run_uids: Iterable[str]) -> list[Nudge]:
        claimed = super().claim_nudges(run_uids)
        if claimed and not self.lost:
            self.lost = claimed[0].number
            raise TemporaryError("the database had trouble")
        return claimed


async def test_a_claim_whose_answer_was_lost_is_sent_all_the_same(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "REPEAT_SECONDS", 0.5)
    nudges, workflows = LosesAnAnswer(rig.database), Workflows()
    watching = asyncio.create_task(watcher.Watcher(nudges, rig.bench.cluster, workflows.send).run())
    try:
        await asyncio.to_thread(deploy, rig)
        await workflows.nudged(1)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    assert workflows.nudges[0].number == nudges.lost
