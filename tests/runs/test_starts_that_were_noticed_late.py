"""The first look at the main job came 6 seconds after its deployment, whatever the cluster reported meanwhile. A crawl
of a second took seven, and its run was shown to have started after its main job had ended."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunInput, RunPlan
from crawler_lifecycle.runs.model import DeploymentOutcome, MainJobStatus, StartRun
from tests.kit.service.rig import Rig
from tests.kit.temporal.activity_events import begun, begun_in
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import DEPLOYED, Script, in_turn
from tests.kit.waiting import until
from tests.runs.stops import Held

pytestmark = pytest.mark.regression(
    "The first look at the main job came 6 seconds after its deployment, whatever the cluster reported meanwhile"
)

BOOKS = RunRequest(crawler="books")
HELD = DeploymentOutcome(cause="admission", message="the installation has as many runs as its limit allows", held=True)
STARTED_AT = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)


def kinds_before(history: WorkflowHistory, name: str) -> list[int]:
    """The types of all events before the activity is scheduled for the first time."""
    kinds = list[int]()
    for event in history.events:
        if (activity := begun(event)) and activity.name == name:
            break
        kinds.append(event.event_type)
    return kinds


@pytest.mark.long
async def test_a_nudge_ends_the_wait_for_the_first_look(play: Play, skipping: WorkflowEnvironment) -> None:
    script = Script()
    async with play(script) as stage:
        with skipping.with_time_skipping_disabled():
            handle = await stage.start(BOOKS)
            async with asyncio.timeout(20):
                while (await handle.query("state"))["waiting_for"] != "the main job to start":
                    await asyncio.sleep(0.01)
            await handle.signal("nudge", 1)
            async with asyncio.timeout(20):
                while "get_main_job_status" not in script.names:
                    await asyncio.sleep(0.01)
        await handle.result()
        kinds = kinds_before(await handle.fetch_history(), "get_main_job_status")
    assert EventType.EVENT_TYPE_TIMER_CANCELED in kinds
    assert EventType.EVENT_TYPE_TIMER_FIRED not in kinds


async def test_a_nudge_that_came_before_the_wait_counts(play: Play) -> None:
    script = Script()
    async with play(script) as stage:
        script.before["run_onetime_crawler"] = lambda: handle.signal("nudge", 1)
        handle = await stage.start(BOOKS)
        await handle.result()
        history = await handle.fetch_history()
    assert EventType.EVENT_TYPE_TIMER_STARTED not in kinds_before(history, "get_main_job_status")


async def test_the_nudge_that_ended_the_wait_for_the_permit_ends_the_wait_for_the_first_look(play: Play) -> None:
    """The job was deployed and over by then, and the cluster nudges once until a look: the run waited 6 seconds."""
    script = Script(deployments=in_turn(HELD, DEPLOYED))
    held = Held(script, "hold_limits")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.signal("nudge")
        held.go_on.set()
        await handle.result()
        kinds = kinds_before(await handle.fetch_history(), "get_main_job_status")
    assert EventType.EVENT_TYPE_TIMER_STARTED not in kinds


async def test_a_run_that_was_nudged_at_its_start_is_looked_at_a_second_later(play: Play) -> None:
    """The nudge was answered by the look at the main job, which says nothing of its end."""
    script = Script(alive=lambda look: 1 if look < 2 else 0)
    async with play(script) as stage:
        script.before["run_onetime_crawler"] = lambda: handle.signal("nudge", 1)
        handle = await stage.start(BOOKS)
        await handle.result()
        times = [
            activity.at
            for activity in begun_in((await handle.fetch_history()).events)
            if activity.name in ("signal_pusher_started", "get_active_running_tasks")
        ]
    assert times[1] - times[0] < timedelta(seconds=30)
    assert times[2] - times[0] > timedelta(seconds=30)


async def test_the_run_started_when_its_main_job_did(play: Play) -> None:
    script = Script(
        statuses=in_turn(MainJobStatus(cause="capacity"), MainJobStatus(started=True, started_at=STARTED_AT))
    )
    async with play(script) as stage:
        await (await stage.start(BOOKS)).result()
    assert [step.started_at for step in script.inputs("update_run_started")] == [STARTED_AT]


def test_the_look_at_the_main_job_says_when_it_started(rig: Rig) -> None:
    plan = rig.begin("sleepy")
    rig.do(rig.deployment.run_onetime_crawler, RunInput(run=plan.run))
    until(lambda: status(rig, plan).started, "the main job to start")
    started_at = status(rig, plan).started_at
    assert started_at
    rig.do(rig.histories.update_run_started, StartRun(run=plan.run, started_at=started_at))
    assert rig.details(plan).run.started_at == started_at


def status(rig: Rig, plan: RunPlan) -> MainJobStatus:
    return rig.do(rig.deployment.get_main_job_status, RunInput(run=plan.run))


def test_a_start_by_another_clock_is_never_before_the_run_or_after_now(rig: Rig) -> None:
    for apart in (timedelta(days=-1), timedelta(days=1)):
        plan, now = rig.begin("sleepy"), datetime.now(UTC)
        rig.do(rig.histories.update_run_started, StartRun(run=plan.run, started_at=now + apart))
        started_at = rig.details(plan).run.started_at
        assert started_at
        assert now - timedelta(minutes=1) < started_at <= datetime.now(UTC)
