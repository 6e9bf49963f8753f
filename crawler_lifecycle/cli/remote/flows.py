"""Flows over the HTTP API, with the methods of `FlowCommands` in `control`."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from crawler_lifecycle.cli.remote.choice import lacking
from crawler_lifecycle.cli.remote.threads import call, iterate
from crawler_lifecycle.client.http import Api
from crawler_lifecycle.contract.flows.answers import FlowAnswer, FlowChange, FlowSummary, MemberRecord
from crawler_lifecycle.contract.flows.definition import FlowDefinition
from crawler_lifecycle.contract.flows.item_requests import CancelItems, RetryItems, StartManager
from crawler_lifecycle.contract.flows.names import ROOT
from crawler_lifecycle.contract.flows.records import FlowStatus, Why
from crawler_lifecycle.contract.flows.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
    StopFlow,
)
from crawler_lifecycle.contract.flows.states import FlowState, MemberState
from crawler_lifecycle.contract.managers.item_filter import ALL_ITEMS, ItemFilter
from crawler_lifecycle.contract.managers.records import ItemAttempt, ItemRecord, ManagerStatus, OutputLine
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.ports import AttemptRecord, FlowLine

OPEN = [status for status in RunStatus if not status.is_over]
POLL_SECONDS = 2.0  # between two looks for open runs


class RemoteFlows:
    """Flows by their ids. A method without an equivalent here, such as `prune`, raises BadInput."""

    def __init__(self, api: Api) -> None:
        self._flows, self._runs = api.flows, api.runs

    def __getattr__(self, name: str) -> Any:
        raise lacking()

    def list(
        self,
        *,
        limit: int = 100,
        before: str | None = None,
        states: Collection[FlowState] | None = None,
        family: str | None = None,
        search: str | None = None,
        attention: bool = False,
    ) -> Sequence[FlowSummary]:
        """Return flows, newest first; with `before`, only flows older than this flow."""
        flows = self._flows.all(
            state=list(states or ()), family=family, search=search, attention=attention, before=before
        )
        return list(islice(flows, limit))

    def row(self, flow: str) -> tuple[str, FlowSummary]:
        """Return the flow's name for `before`, and the flow as in a list."""
        summary = self._flows.show(flow)["flow"]
        return summary.id, summary

    def status(self, flow: str) -> FlowStatus:
        return self._flows.show(flow)["status"]

    def lines(self, flow: str) -> Sequence[FlowLine]:
        return self._flows.show(flow)["timeline"]

    def members(
        self, flow: str, paths: Iterable[str] | None = None, *, states: Collection[MemberState] | None = None
    ) -> Sequence[MemberRecord]:
        """Return the members in their order. NotFound for an unknown path."""
        return list(self._flows.jobs(flow, paths, state=list(states or ())))

    def managers(self, flow: str) -> Sequence[ManagerStatus]:
        """Return the flow's crawl managers with their numbers."""
        return self._flows.managers(flow)

    def items(self, flow: str, chosen: ItemFilter = ALL_ITEMS, *, after: int = 0, limit: int) -> Sequence[ItemRecord]:
        """Return a page with a manager's items, by number."""
        return list(islice(self._flows.items(flow, chosen, after=after, page_size=limit), limit))

    def why_item(self, flow: str, number: int, manager: str | None = None) -> Why:
        return self._flows.why_item(flow, number, manager)

    def item_attempts(self, flow: str, number: int, manager: str | None = None) -> Sequence[ItemAttempt]:
        return self._flows.item_attempts(flow, number, manager)

    def output(self, flow: str, manager: str | None = None) -> Sequence[OutputLine]:
        return self._flows.output(flow, manager)

    def attempts(self, flow: str, path: str) -> Sequence[AttemptRecord]:
        return self._flows.attempts(flow, path)

    def results(self, flow: str, paths: Iterable[str] | None = None) -> Mapping[str, Any]:
        """Return the recorded results by path, nested for sub-workflows."""
        return self._flows.results(flow, paths)

    def why(self, flow: str, path: str = ROOT) -> Why:
        return self._flows.why(flow, path or None)

    def picture(self, flow: str, kind: str, *, states: bool = True) -> str:
        return self._flows.graph(flow, kind, states=states)

    def follow(self, flow: str) -> AsyncIterator[FlowChange]:
        """Yield the flow's state at every change, until the flow has ended."""
        return iterate(self._flows.follow(flow))

    async def push(self, request: PushFlow) -> FlowAnswer:
        return await call(lambda: self._flows.push(request))

    async def append(self, flow: str, request: AppendMembers) -> FlowAnswer:
        return await call(lambda: self._flows.append(flow, request))

    async def cancel(self, flow: str, request: CancelMembers) -> FlowAnswer:
        return await call(lambda: self._flows.cancel(flow, request))

    async def retry(self, flow: str, request: RetryMembers) -> FlowAnswer:
        return await call(lambda: self._flows.retry(flow, request))

    async def retry_items(self, flow: str, request: RetryItems) -> FlowAnswer:
        return await call(lambda: self._flows.retry_items(flow, request))

    async def cancel_items(self, flow: str, request: CancelItems) -> FlowAnswer:
        return await call(lambda: self._flows.cancel_items(flow, request))

    async def start_manager(self, request: StartManager) -> FlowAnswer:
        return await call(lambda: self._flows.start_manager(request))

    async def definition_of_manager(self, name: str, family: str | None, arguments: Sequence[str]) -> FlowDefinition:
        request = StartManager(manager=name, family=family, arguments=tuple(arguments))
        return await call(lambda: self._flows.manager_definition(request))

    async def approve(self, flow: str, request: ApproveMember) -> FlowAnswer:
        return await call(lambda: self._flows.approve(flow, request))

    async def hold(self, flow: str, request: HoldFlow) -> FlowAnswer:
        return await call(lambda: self._flows.hold(flow, request))

    async def stop(self, flow: str, request: StopFlow) -> FlowAnswer:
        return await call(lambda: self._flows.stop(flow, request))

    async def wait(self, flow: str) -> FlowSummary:
        """Return the flow as soon as the flow has ended."""
        async for _ in self.follow(flow):
            pass
        _, summary = await call(lambda: self.row(flow))
        return summary

    async def wait_for_proof(self, flow: str) -> FlowSummary:
        """Return the flow as soon as the flow has ended, and none of its runs is open."""
        summary = await self.wait(flow)
        while (await call(lambda: self._runs.page(limit=1, flow=flow, status=OPEN))).items:
            await asyncio.sleep(POLL_SECONDS)
        return summary
