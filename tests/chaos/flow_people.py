"""Those who push flows, approve, cancel, retry and stop them, and take no outage for an answer."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from temporalio.service import RPCError

from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.model.requests import (
    ApproveMember,
    CancelMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
    StopFlow,
    StopWay,
)
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.naming import flow_workflow_id
from crawler_lifecycle.model.records import RunFilter, RunSummary
from tests.chaos.flow_lives import ENDLESS, FlowDeed, FlowLife
from tests.chaos.graph import a_flow
from tests.chaos.ground import Ground
from tests.chaos.people import PAUSE, until_moment

ACTOR = "chaos"
# the lines of a flow's timeline for requests that were answered
LINES = {
    FlowDeed.APPROVE: "approved",
    FlowDeed.CANCEL_ALL: "cancelled",
    FlowDeed.CANCEL_CRAWL: "cancelled",
    FlowDeed.RETRY: "retried",
}


@dataclass
class FlowPeople:
    """`accepted`: requests that changed a flow by their answer, by the flow's id."""

    ground: Ground
    crawlers: dict[str, str | None] = field(default_factory=dict)  # by flow
    items: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, Counter[FlowDeed]] = field(default_factory=dict)

    async def live(self, life: FlowLife, began: float, calm_at: float) -> None:
        await until_moment(began + life.starts_at)
        flow_id = f"flow-{life.number}"
        await self.push(flow_id, life.items, life.crawler)
        since = time.monotonic()
        for at, deed in life.deeds:
            if since + at < calm_at:
                await until_moment(since + at)
                await self.do(deed, flow_id)
        await until_moment(calm_at)

    async def push(self, flow_id: str, items: int, crawler: str | None) -> None:
        """Push again and again: the same id is the same flow."""
        self.accepted[flow_id], self.items[flow_id], self.crawlers[flow_id] = Counter(), items, crawler
        request = PushFlow(definition=a_flow(flow_id, items, crawler).definition(), actor=ACTOR)
        while True:
            with suppress(TemporaryError):
                await self.flows.push(request)
                return
            await asyncio.sleep(PAUSE)

    async def do(self, deed: FlowDeed, flow_id: str) -> None:
        """A refusal, or a request without an answer, is nothing to insist on."""
        with suppress(LifecycleError, RPCError):
            if await self._do(deed, flow_id):
                self.accepted[flow_id][deed] += 1

    async def _do(self, deed: FlowDeed, flow_id: str) -> bool:
        """Return whether the request changed the flow."""
        if deed in (FlowDeed.TERMINATE, FlowDeed.CANCEL):
            uid, _ = await asyncio.to_thread(self.flows.row, flow_id)
            client = await self.ground.site.control.engine.client()
            handle = client.get_workflow_handle(flow_workflow_id(uid))
            await (handle.cancel() if deed is FlowDeed.CANCEL else handle.terminate(ACTOR))
            return True
        if deed is FlowDeed.APPROVE:
            return (await self.flows.change(flow_id, ApproveMember(path="go", actor=ACTOR))).changed
        if deed is FlowDeed.RETRY:
            return (await self.flows.change(flow_id, RetryMembers(actor=ACTOR))).count > 0
        if deed in (FlowDeed.CANCEL_ALL, FlowDeed.CANCEL_CRAWL):
            paths = None if deed is FlowDeed.CANCEL_ALL else ("shop",)
            return (await self.flows.change(flow_id, CancelMembers(paths=paths, actor=ACTOR))).count > 0
        if deed in (FlowDeed.PAUSE, FlowDeed.GO_ON):
            hold = "pause" if deed is FlowDeed.PAUSE else "run"
            return (await self.flows.change(flow_id, HoldFlow(hold=hold, actor=ACTOR))).changed
        way = StopWay.DRAIN if deed is FlowDeed.DRAIN else StopWay.TERMINATE
        request = StopFlow(way=way, force=deed is FlowDeed.FORCE, actor=ACTOR)
        return (await self.flows.stop(flow_id, request)).changed

    async def let_end(self) -> None:
        """Take away what keeps open flows from their end: pauses, approvals and crawls without an end."""
        for flow_id in self.accepted:
            with suppress(LifecycleError):
                _, row = await asyncio.to_thread(self.flows.row, flow_id)
                if row.state.is_final:
                    continue
                await self.flows.change(flow_id, HoldFlow(hold="run", actor=ACTOR))
                await self.do(FlowDeed.APPROVE, flow_id)
                if self.crawlers[flow_id] in ENDLESS:
                    await self.do(FlowDeed.CANCEL_CRAWL, flow_id)
                    await self._force_stopped(flow_id)

    async def _force_stopped(self, flow_id: str) -> None:
        """Force the runs of cancelled crawls that do not listen."""
        members = await asyncio.to_thread(self.flows.members, flow_id)
        if all(member.state.is_final for member in members) and any(
            member.state is MemberState.CANCELLED for member in members
        ):
            await self.flows.stop(flow_id, StopFlow(force=True, actor=ACTOR))

    async def under_way(self) -> list[str]:
        rows = [(flow_id, await asyncio.to_thread(self.flows.row, flow_id)) for flow_id in self.accepted]
        return [f"{flow_id} is {row.state}" for flow_id, (_, row) in rows if not row.state.is_final]

    def runs(self) -> list[Started]:
        """Return the runs of all flows."""
        control = self.ground.site.control
        listed = [control.runs.show(run.run_id).run for flow_id in self.accepted for run in self._listed(flow_id)]
        return [
            Started(
                workflow_id=run.workflow_id,
                first_execution_run_id=run.first_execution_run_id,
                run_id=run.run_id,
                run_uid=run.run_uid,
            )
            for run in listed
        ]

    def _listed(self, flow_id: str) -> Sequence[RunSummary]:
        return self.ground.site.control.runs.select(RunFilter(flow=flow_id), limit=100)

    @property
    def flows(self) -> FlowCommands:
        return self.ground.site.control.flows  # another control after each start of the stack
