"""A run that waits for its permit: its limits of time stand still, a nudge and a stop end the wait."""

import asyncio
from datetime import datetime, timedelta

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.model import DeploymentOutcome, MainJobStatus
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import DEPLOYED, Script, in_turn, moments
from tests.runs.stops import Held

HELD = DeploymentOutcome(cause="admission", message="label site:a has as many runs as its limit allows", held=True)
BOOKS = RunRequest(crawler="books", start_limit_seconds=600, max_duration_seconds=900)


async def test_no_limit_of_time_ends_the_wait(play: Play) -> None:
    tried = list[datetime]()
    script = Script(deployments=in_turn(HELD, HELD, HELD, DEPLOYED))
    script.before["run_onetime_crawler"] = moments(tried)
    async with play(script) as stage:
        result = await (await stage.start(BOOKS)).result()
    assert result["status"] == "COMPLETED"
    assert tried[-1] - tried[0] > timedelta(minutes=44)
    assert [step.held for step in script.inputs("hold_limits")] == [True, False]


async def test_once_the_permit_is_there_the_limits_count_again(play: Play) -> None:
    waits = MainJobStatus(cause="unschedulable")
    script = Script(deployments=in_turn(HELD, HELD, DEPLOYED), statuses=in_turn(waits))
    script.alive = lambda look: 0 if "k8_stop_task" in script.names else 1
    async with play(script) as stage:
        result = await (await stage.start(BOOKS)).result()
    assert result["reason"] == "never_started"
    assert [step.held for step in script.inputs("hold_limits")] == [True, False]


async def test_a_nudge_ends_the_wait(play: Play) -> None:
    tried = list[datetime]()
    script = Script(deployments=in_turn(HELD, DEPLOYED))
    script.before["run_onetime_crawler"] = moments(tried)
    held = Held(script, "hold_limits")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.signal("nudge")
        held.go_on.set()
        await handle.result()
    assert tried[1] - tried[0] < timedelta(minutes=15)


async def test_a_stop_ends_the_wait_and_nothing_is_deployed(play: Play) -> None:
    script = Script(deployments=in_turn(HELD))
    held = Held(script, "hold_limits")
    async with play(script) as stage, asyncio.timeout(30):
        handle = await stage.start(BOOKS)
        await held.reached.wait()
        await handle.signal("stop", {"actor": "ann"})
        held.go_on.set()
        outcome = await handle.result()
    assert outcome["reason"] == "stopped"
    assert script.names.count("run_onetime_crawler") == 1
