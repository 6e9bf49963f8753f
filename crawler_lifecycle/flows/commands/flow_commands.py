"""The commands for flows, which all doors call as `Control.flows`.

A command is stored before its answer. Its effect reaches the flow's supervisor by a nudge; without Temporal, the
answer says so, and the audit starts the supervisor later.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import LifecycleError, Over
from crawler_lifecycle.flows.commands.reading import FlowReader
from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import (
    AddItems,
    AppendMembers,
    CancelItems,
    CancelMembers,
    ChangeFlow,
    GraftMembers,
    HoldFlow,
    PushFlow,
    RetryItems,
    StartManager,
    StopFlow,
    StopWay,
)
from crawler_lifecycle.flows.ports.ledger import FlowStore
from crawler_lifecycle.flows.ports.records import Part
from crawler_lifecycle.flows.rules.pruning import AFTER_A_DAY, Rule
from crawler_lifecycle.flows.rules.rows import FlowRow
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.commands.stops import StopCommand
from crawler_lifecycle.temporal.engine import Engine

NUDGE_PATIENCE = 5.0  # seconds; the request is already stored, and its author waits
PAGE = 500  # flows in a query
OPEN = tuple(status for status in RunStatus if not status.is_over)
SLOW_READ = 2.0  # seconds between two reads while the end of the supervisor is awaited
WITHOUT_SUPERVISOR = 0.5  # seconds until the next look for a supervisor
AFTER_AN_END = 0.05  # seconds: a supervisor may end although its flow continues, such as by a termination


AnyFragment = TypeVar("AnyFragment", bound=Fragment)


class NamedManagers(Protocol):
    """Crawl managers by name, for definitions from other machines."""

    async def definition(self, name: str, family: str | None, arguments: Sequence[str]) -> FlowDefinition: ...

    async def with_classes(self, fragment: AnyFragment) -> AnyFragment: ...


class FlowCommands(FlowReader):
    def __init__(self, context: ControlContext[FlowStore], engine: Engine, managers: NamedManagers) -> None:
        super().__init__(context)
        self._engine = engine
        self._named_managers = managers

    async def push(self, request: PushFlow) -> FlowAnswer:
        """Store a flow, or update the flow with its id. The whole request is stored, or nothing.

        A flow that is pushed by a step has the hosts of the step's flow.
        """
        own_host = request.own_host or self._context.own_host
        definition = await self._named_managers.with_classes(request.definition)
        request = request.model_copy(update={"own_host": own_host, "definition": definition})
        return await self._do(lambda store: store.flow_doors.push(request))

    async def start_manager(self, request: StartManager) -> FlowAnswer:
        """Start a crawl manager by its catalogue name, once in its family. BadInput without such a manager."""
        definition = await self.definition_of_manager(request.manager, request.family, request.arguments)
        return await self.push(PushFlow(definition=definition, actor=request.actor, door=request.door))

    async def definition_of_manager(self, name: str, family: str | None, arguments: Sequence[str]) -> FlowDefinition:
        """Return the flow for a crawl manager by its catalogue name. BadInput without such a manager."""
        return await self._named_managers.definition(name, family, arguments)

    async def append(self, flow: str, request: AppendMembers) -> FlowAnswer:
        """Add members to an open flow, once for the key."""
        fragment = await self._named_managers.with_classes(request.fragment)
        request = request.model_copy(update={"fragment": fragment})
        return await self._do(lambda store: store.flow_doors.append(flow, request))

    async def graft(self, flow_uid: str, request: GraftMembers) -> FlowAnswer:
        """Attach a sub-workflow in the place of a running grafter. The supervisor reads it when the grafter ends."""
        return await self._context.database(lambda store: store.flow_doors.graft(flow_uid, request))

    async def change(self, flow: str, request: ChangeFlow) -> FlowAnswer:
        """Cancel, retry or approve members, or hold the flow. The states are stored with the answer.

        Over if the whole flow is to be cancelled, and has ended.
        """
        answer = await self._do(lambda store: store.flow_doors.change(flow, request))
        if isinstance(request, CancelMembers) and request.paths is None and not answer.changed:
            status = await self._context.database(lambda _: self.status(flow))
            if status.state.is_final:
                raise Over(f"flow {flow!r} is {status.state} already")
        return answer

    async def stop(self, flow: str, request: StopFlow) -> FlowAnswer:
        """Stop a flow. `wait_for_proof` returns with the proof that no part of the flow runs any more.

        Over if the flow has ended and no run of the flow is open. The runs themselves are asked by force, and when no
        row is open: an earlier stop, or a manager's end, has left them alone.
        """
        record = request.model_dump(include={"actor", "door"})
        if request.way is StopWay.DRAIN:
            answer = await self.change(flow, HoldFlow(hold="drain", **record))
        else:
            terminate = request.way is StopWay.TERMINATE
            try:
                answer = await self.change(flow, CancelMembers(terminate=terminate, reason=request.reason, **record))
            except Over:
                if not terminate or not await self._stop_runs(flow, request):
                    raise
                uid, _ = await self._context.database(lambda _: self.row(flow))
                return FlowAnswer(flow_id=flow, flow_uid=uid, changed=False)
        if request.force or (request.way is StopWay.TERMINATE and not answer.changed):
            await self._stop_runs(flow, request)
        return answer

    async def _stop_runs(self, flow: str, request: StopFlow) -> int:
        """Stop the runs of the flow's crawls under way; by force, without their grace period. Return their number."""
        kept = await self._context.database(lambda _: self.kept(flow, Part(in_flight=True)))
        in_flight = [number for number, row in kept.ledger.members.items() if row.in_flight]
        runs = [kept.last_runs[number] for number in in_flight if number in kept.last_runs]
        runs += await self._context.database(lambda store: store.manager_doors.runs_under_way(flow))
        stop = StopRequest(force=request.force, actor=request.actor, reason=request.reason, door=request.door)
        stopped = 0
        for run_id in runs:
            with suppress(Over):  # the run ended a moment ago
                await StopCommand(self._context, self._engine, run_id, stop).execute()
                stopped += 1
        return stopped

    async def add_items(self, flow: str, request: AddItems) -> FlowAnswer:
        """Add items to an open crawl manager, once for the key."""
        return await self._do(lambda store: store.manager_doors.add_items(flow, request))

    async def retry_items(self, flow: str, request: RetryItems) -> FlowAnswer:
        """Give items another attempt. A manager that has ended continues."""
        return await self._do(lambda store: store.manager_doors.retry_items(flow, request))

    async def cancel_items(self, flow: str, request: CancelItems) -> FlowAnswer:
        """Cancel items that wait."""
        return await self._do(lambda store: store.manager_doors.cancel_items(flow, request))

    async def wait(self, flow: str) -> FlowRow:
        """Return the flow's row as soon as the flow has ended, in success or not. NotFound without such a flow."""
        return await until_final(flow, self._context, self._engine)

    async def wait_for_proof(self, flow: str) -> FlowRow:
        """Return the flow's row as soon as the flow has ended, and none of its runs is open."""
        return await until_proved(flow, self._context, self._engine)

    async def prune(self, rule: Rule = AFTER_A_DAY) -> int:
        """Delete ended flows whose age the rule accepts. Runs stay. Return the number of deleted flows."""
        return await self._context.database(lambda _: self._prune(rule))

    def _prune(self, rule: Rule) -> int:
        old, before, now = list[str](), None, datetime.now(UTC)
        ended = [state for state in FlowState if state.is_final]
        while page := self.list(limit=PAGE, before=before, states=ended):
            old += [flow.uid for flow in page if flow.stopped_at is not None and rule.holds(now - flow.stopped_at)]
            before = page[-1].uid
        return self._context.store.flow_doors.prune(old) if old else 0

    async def _do(self, act: Callable[[FlowStore], FlowAnswer]) -> FlowAnswer:
        """Store a request, and nudge the supervisor. A repeated request nudges the supervisor of an open flow."""
        answer = await self._context.database(act)
        if not answer.changed:
            _, row = await self._context.database(lambda _: self.row(answer.flow_id))
            if row.state.is_final:
                return answer
        problem = await self._nudge_problem(answer)
        return answer.model_copy(update={"nudged": problem is None, "problem": problem})

    async def _nudge_problem(self, answer: FlowAnswer) -> str | None:
        """Nudge the supervisor. Return the problem if the nudge failed: the request is stored in any case."""
        try:
            async with asyncio.timeout(NUDGE_PATIENCE):
                await self._engine.nudge_flow(answer.flow_uid, answer.flow_id)
        except LifecycleError as error:
            return error.message
        except TimeoutError:
            return f"Temporal at {self._engine.address} did not answer in {NUDGE_PATIENCE:.0f} s"
        return None


async def until_final(flow: str, context: ControlContext[FlowStore], engine: Engine) -> FlowRow:
    """Return the flow's row as soon as the flow has ended. NotFound without such a flow."""
    reader = FlowReader(context)
    end: asyncio.Task[None] | None = None
    pause = 0.0
    try:
        while True:
            uid, row = await context.calls.run(reader.row, flow)
            if row.state.is_final:
                return row
            end = end or asyncio.create_task(_end_of_supervisor(engine, uid, pause))
            if (await asyncio.wait([end], timeout=SLOW_READ))[0]:
                end, pause = None, AFTER_AN_END
    finally:
        if end is not None:
            end.cancel()


async def until_proved(flow: str, context: ControlContext[FlowStore], engine: Engine) -> FlowRow:
    """Return the flow's row as soon as the flow has ended, and none of its runs is open.

    A manager's flow may end before the crawls that its manager leaves alone.
    """
    row = await until_final(flow, context, engine)
    while await context.database(lambda store: store.records.page(RunFilter(flow=flow, status=OPEN), limit=1)):
        await asyncio.sleep(SLOW_READ)
    return row


async def _end_of_supervisor(engine: Engine, flow_uid: str, pause: float) -> None:
    """Wait for the end of the supervisor's execution after the pause; without a supervisor, wait for a moment."""
    await asyncio.sleep(pause)
    try:
        await engine.flow_ended(flow_uid)
    except LifecycleError:  # the row shows the flow's end without Temporal
        await asyncio.sleep(WITHOUT_SUPERVISOR)
