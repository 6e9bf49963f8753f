import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio import activity
from temporalio.testing import ActivityEnvironment
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
)

from crawler_lifecycle.temporal import options
from crawler_lifecycle.temporal.boundary import Boundary

pytestmark = pytest.mark.regression(
    "A step whose worker was killed was only tried again after its whole time-out, up to two minutes"
)

BEATS = 3


class Server(ActivityOutboundInterceptor):
    """Where heartbeats go to."""

    def __init__(self) -> None:
        self.beats = 0
        self.enough = asyncio.Event()

    def heartbeat(self, *details: Any) -> None:
        self.beats += 1
        if self.beats == BEATS:
            self.enough.set()


@dataclass
class Step(ActivityInboundInterceptor):
    """An activity that says nothing itself, and takes as long as it takes."""

    lasts: asyncio.Event = field(default_factory=asyncio.Event)

    def init(self, outbound: ActivityOutboundInterceptor) -> None: ...

    async def execute_activity(self, input: ExecuteActivityInput) -> str:  # noqa: A002 (the SDK's name)
        async with asyncio.timeout(20):
            await self.lasts.wait()
        return "done"


async def _run(activity_type: str, server: Server, step: Step) -> object:
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, activity_type=activity_type, heartbeat_timeout=timedelta(milliseconds=100)
    )
    interceptor = Boundary().intercept_activity(step)
    interceptor.init(server)
    given = ExecuteActivityInput(fn=step.execute_activity, args=[], executor=None, headers={})

    async def body() -> object:
        assert activity.info().activity_type == activity_type
        return await interceptor.execute_activity(given)

    return await cast("Any", environment.run(body))


async def test_a_worker_that_lives_says_so_for_its_steps() -> None:
    server = Server()
    assert await _run("run_onetime_crawler", server, Step(server.enough)) == "done"
    assert server.beats >= BEATS
    told = server.beats
    await asyncio.sleep(0.2)
    assert server.beats == told, "it is over"


async def test_an_export_tells_itself_how_far_it_is() -> None:
    server, over = Server(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, over.set)
    assert await _run("export_supporting_files", server, Step(over)) == "done"
    assert server.beats == 0


@pytest.mark.parametrize("name", ["READ", "WRITE", "DEPLOY", "STOP", "OPTIONAL", "ANNOUNCE", "LONG"])
def test_a_lost_worker_is_missed_long_before_the_step_is_overdue(name: str) -> None:
    option = getattr(options, name)
    assert option["heartbeat_timeout"] <= timedelta(seconds=30)
    assert option["heartbeat_timeout"] < option["start_to_close_timeout"]
