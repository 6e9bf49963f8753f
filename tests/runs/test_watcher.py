"""The watcher: whoever changed is nudged, once until that is acknowledged, and again if Temporal was away."""

import asyncio
from collections.abc import Callable

from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.task_changes import CloseLook
from tests.kit.service.rig import Rig
from tests.runs.watching import Workflows, deploy, watched


def acknowledge(rig: Rig, plan: RunPlan, number: int) -> None:
    rig.do(rig.reconciliation.count_alive_tasks, CloseLook(run=plan.run, nudge=number))


async def in_thread(call: Callable[..., object], *arguments: object) -> object:
    return await asyncio.to_thread(call, *arguments)


async def test_a_change_is_nudged_once_until_it_is_acknowledged(rig: Rig) -> None:
    workflows = Workflows()
    async with watched(rig, workflows):
        plan = await asyncio.to_thread(deploy, rig)
        await workflows.nudged(1)
        assert (workflows.nudges[0].run_id, workflows.nudges[0].number) == (plan.run.run_id, 1)
        assert workflows.nudges[0].workflow_id == rig.details(plan).run.workflow_id
        await in_thread(rig.bench.cluster.kill, plan.run.run_uid, [(0, 1), (1, 1)])
        await asyncio.sleep(1.5)
        assert len(workflows.nudges) == 1
        await in_thread(acknowledge, rig, plan, 1)
        await workflows.nudged(2)
    assert [nudge.number for nudge in workflows.nudges] == [1, 2]


async def test_a_nudge_that_could_not_be_sent_is_sent_later(rig: Rig) -> None:
    workflows = Workflows(away=2)
    async with watched(rig, workflows):
        plan = await asyncio.to_thread(deploy, rig)
        await workflows.nudged(1)
    assert workflows.nudges[0].run_id == plan.run.run_id
    assert workflows.away == 0


async def test_a_closed_workflow_does_not_end_the_watch(rig: Rig) -> None:
    workflows = Workflows(closed=True)
    async with watched(rig, workflows):
        lost = await asyncio.to_thread(deploy, rig)
        async with asyncio.timeout(20):
            while (await asyncio.to_thread(rig.details, lost)).run.nudge_sent == 0:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        workflows.closed = False
        plan = await asyncio.to_thread(deploy, rig)
        await workflows.nudged(1)
    assert plan.run.run_id in {nudge.run_id for nudge in workflows.nudges}
