"""Those who start crawl managers, pause them, add and retry items and stop them, and take no outage for an answer."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from uuid import uuid4

from temporalio.service import RPCError

from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.requests import AddItems, HoldFlow, PushFlow, RetryItems, StopFlow, StopWay
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.manager_items import Item
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.model.records import RunFilter, RunRecord
from crawler_lifecycle.model.requests import RunParameters
from tests.chaos.ground import Ground
from tests.chaos.manager_comparison import ToldManager, told_manager
from tests.chaos.managing import Shops
from tests.chaos.people import PAUSE, until_moment

ACTOR = "chaos"
MANAGER = "manager"  # path of a flow's only member
FIRST = (1.0, 5.0)  # early, so that also a short soak has managers with faults
SECONDS_BETWEEN = (15.0, 30.0)
LIFE = 40.0
LATEST = 50  # runs of a manager, among which are those under way


class ManagerDeed(StrEnum):
    PAUSE = "pause"
    GO_ON = "go on"
    ADD = "add an item"
    RETRY = "retry the failed items"
    STOP = "stop"
    DRAIN = "drain"
    TERMINATE = "terminate"  # the supervisor, by Temporal's tools


# the lines of a flow's timeline for requests that were answered
LINES = {
    ManagerDeed.PAUSE: "paused",
    ManagerDeed.GO_ON: "resumed",
    ManagerDeed.ADD: "items added",
    ManagerDeed.RETRY: "items retried",
    ManagerDeed.STOP: "cancelled",
    ManagerDeed.DRAIN: "drained",
}
COURSES: tuple[tuple[ManagerDeed, ...], ...] = (
    (),
    (ManagerDeed.ADD, ManagerDeed.ADD),
    (ManagerDeed.PAUSE, ManagerDeed.ADD, ManagerDeed.GO_ON),
    (ManagerDeed.ADD, ManagerDeed.RETRY),
    (ManagerDeed.DRAIN,),
    (ManagerDeed.PAUSE, ManagerDeed.STOP),
    (ManagerDeed.TERMINATE, ManagerDeed.ADD),
    (ManagerDeed.STOP,),
)


@dataclass(frozen=True)
class ManagerLife:
    """Times are seconds: `starts_at` since the soak began, those of deeds since the manager's start."""

    number: int
    starts_at: float
    shops: int
    deeds: tuple[tuple[float, ManagerDeed], ...]


def manager_lives(seed: int, seconds: float) -> Iterator[ManagerLife]:
    chance, number = Random(f"{seed}:managers"), 0
    at = chance.uniform(*FIRST)
    while at < seconds:
        number += 1
        moments = sorted(chance.uniform(0.5, LIFE) for _ in range(len(COURSES)))
        deeds = tuple(zip(moments, chance.choice(COURSES), strict=False))
        yield ManagerLife(number, at, chance.choice((3, 5, 8)), deeds)
        at += chance.uniform(*SECONDS_BETWEEN)


@dataclass
class ManagerPeople:
    """`accepted`: requests that changed a manager's flow by their answer, by the flow's id."""

    ground: Ground
    shops: dict[str, int] = field(default_factory=dict)  # by flow
    accepted: dict[str, Counter[ManagerDeed]] = field(default_factory=dict)

    async def live(self, life: ManagerLife, began: float, calm_at: float) -> None:
        await until_moment(began + life.starts_at)
        flow_id = f"chaos/shops-{life.number}"
        await self.start(flow_id, life.shops)
        since = time.monotonic()
        for at, deed in life.deeds:
            if since + at < calm_at:
                await until_moment(since + at)
                await self.do(deed, flow_id)
        await until_moment(calm_at)

    async def start(self, flow_id: str, shops: int, manager: type[Shops] = Shops) -> None:
        """Start again and again: the same id is the same manager."""
        self.accepted[flow_id], self.shops[flow_id] = Counter(), shops
        function = f"{manager.__module__}:{manager.__name__}"
        work = StepWork(function=function, form=CallForm.MANAGER, arguments=["--shops", str(shops)])
        members = (MemberDefinition(path=MANAGER, work=work),)
        definition = FlowDefinition(id=flow_id, name=manager.name, family="chaos", members=members)
        while True:
            with suppress(TemporaryError):
                await self.flows.push(PushFlow(definition=definition, actor=ACTOR))
                return
            await asyncio.sleep(PAUSE)

    async def do(self, deed: ManagerDeed, flow_id: str) -> None:
        """A refusal, or a request without an answer, is nothing to insist on."""
        with suppress(LifecycleError, RPCError):
            if await self._do(deed, flow_id):
                self.accepted[flow_id][deed] += 1

    async def _do(self, deed: ManagerDeed, flow_id: str) -> bool:
        """Return whether the request changed the flow."""
        flows = self.flows
        if deed is ManagerDeed.TERMINATE:
            uid, _ = await asyncio.to_thread(flows.row, flow_id)
            client = await self.ground.site.control.engine.client()
            await client.get_workflow_handle(flow_workflow_id(uid)).terminate(ACTOR)
            return True
        if deed is ManagerDeed.ADD:
            shop = uuid4().hex
            arguments = {"shop": shop}
            request = RunParameters(crawler="soon", arguments=arguments)
            item = Item(override={"spider_args": arguments}, request=request, key=shop)
            return (await flows.add_items(flow_id, AddItems(key=shop, items=(item,), actor=ACTOR))).changed
        if deed is ManagerDeed.RETRY:
            return (await flows.retry_items(flow_id, RetryItems(actor=ACTOR))).changed
        if deed in (ManagerDeed.PAUSE, ManagerDeed.GO_ON):
            hold = "pause" if deed is ManagerDeed.PAUSE else "run"
            return (await flows.change(flow_id, HoldFlow(hold=hold, actor=ACTOR))).changed
        way = StopWay.DRAIN if deed is ManagerDeed.DRAIN else StopWay.TERMINATE
        return (await flows.stop(flow_id, StopFlow(way=way, actor=ACTOR))).changed

    async def let_end(self) -> None:
        """Take away the pauses that keep managers from their end."""
        for flow_id in self.accepted:
            with suppress(LifecycleError):
                _, row = await asyncio.to_thread(self.flows.row, flow_id)
                if not row.state.is_final:
                    await self.flows.change(flow_id, HoldFlow(hold="run", actor=ACTOR))

    async def under_way(self) -> list[str]:
        rows = [(flow_id, await asyncio.to_thread(self.flows.row, flow_id)) for flow_id in self.accepted]
        return [f"{flow_id} is {row.state}" for flow_id, (_, row) in rows if not row.state.is_final]

    def seen(self, flow_id: str) -> ToldManager:
        accepted = {event: self.accepted[flow_id][deed] for deed, event in LINES.items()}
        return told_manager(self.ground.site.control, self.ground.steps, flow_id, self.shops[flow_id], accepted)

    def runs(self) -> list[Started]:
        """Return the runs of all managers."""
        return [_started(run) for flow_id in self.accepted for run in self.seen(flow_id).runs]

    def open_runs(self, flow_id: str) -> list[Started]:
        """Return the manager's crawls under way, newest first."""
        runs = self.ground.site.control.runs
        listed = runs.select(RunFilter(flow=flow_id), limit=LATEST)
        return [_started(runs.show(run.run_id).run) for run in listed if not run.status.is_over]

    def status(self, flow_id: str) -> ManagerStatus:
        (status,) = self.ground.site.control.parts.store.manager_doors.statuses(flow_id)
        return status

    @property
    def flows(self) -> FlowCommands:
        return self.ground.site.control.flows  # another control after each start of the stack


def _started(run: RunRecord) -> Started:
    return Started(
        workflow_id=run.workflow_id,
        first_execution_run_id=run.first_execution_run_id,
        run_id=run.run_id,
        run_uid=run.run_uid,
    )
