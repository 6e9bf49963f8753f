"""The commands for schedules, which all doors call as `Control.schedules`.

Temporal alone keeps the schedules. Every occurrence that starts is a workflow with its own id.

`replace` changes a schedule's rules without losing the changes that other clients make at the same time. A request
carries the token that came with the description. Temporal drops a request with an old token, and some versions of
Temporal report no error. So every request is verified, and a dropped request is made anew from the present state.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from uuid import uuid4

from temporalio import client as temporal
from temporalio.api.workflowservice.v1 import UpdateScheduleRequest
from temporalio.client import Client, Schedule, ScheduleDescription, ScheduleHandle
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, TemporaryError
from crawler_lifecycle.flows.commands.definitions import check_outside
from crawler_lifecycle.flows.model.definition import CrawlWork
from crawler_lifecycle.flows.rules import merging
from crawler_lifecycle.flows.rules.messages import FlowOccurrence
from crawler_lifecycle.managers.commands import CatalogueManagers
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.schedules.commands import translation
from crawler_lifecycle.schedules.commands.occurrences import PAGE, Occurrences
from crawler_lifecycle.schedules.commands.translation import Action
from crawler_lifecycle.schedules.model import (
    Backfilled,
    ManagerSchedule,
    OccurrenceOutcome,
    ScheduleCommand,
    ScheduleDetails,
    ScheduleRequest,
    ScheduleSummary,
    SkipReason,
    Triggered,
)
from crawler_lifecycle.schedules.ports import ScheduleStore
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT
from crawler_lifecycle.temporal.engine import Engine

TRIES = 10  # requests until the replacement is given up, because other clients change the schedule all the time
DELETE = "delete"
TRIGGER_PATIENCE = 20.0  # seconds to wait for the outcome of a trigger; after them, the outcome is ASKED
POLL_PAUSE = 0.2  # seconds between two reads of the schedule


async def replace(
    client: Client,
    handle: ScheduleHandle,
    present: ScheduleDescription,
    rules: Schedule,
    has_rules: Callable[[Schedule], bool],
) -> None:
    """Give the schedule these rules. Its state stays: paused or not, and the note.

    `present` is the schedule's description, and `has_rules` returns whether a schedule has the new rules.
    """
    for _ in range(TRIES):
        rules.state = present.schedule.state
        await _update(client, present, rules)
        present = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if has_rules(present.schedule):
            return
    raise TemporaryError(f"schedule {handle.id} was changed by other clients {TRIES} times meanwhile: try again")


async def _update(client: Client, present: ScheduleDescription, rules: Schedule) -> None:
    """Send the rules with the token of the present state; the client's own method sends no token."""
    request = UpdateScheduleRequest(
        namespace=client.namespace,
        schedule_id=present.id,
        schedule=await rules._to_proto(client),
        conflict_token=present.raw_description.conflict_token,
        identity=client.identity,
        request_id=str(uuid4()),
    )
    try:
        await client.workflow_service.update_schedule(request, retry=True, timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is not RPCStatusCode.FAILED_PRECONDITION:  # the token is old: `replace` tries again
            raise


class ScheduleCommands:
    def __init__(self, context: ControlContext[ScheduleStore], engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._occurrences = Occurrences(context, engine)

    async def create(self, request: ScheduleRequest | ManagerSchedule) -> ScheduleDetails:
        """Make a schedule. NotFound if its crawler is unknown, Conflict if its name is taken."""
        request = await checked(request, self._context)
        actor = self._context.requester.name
        note = translation.with_line("", translation.PAUSED, _now(), actor, "created paused") if request.paused else ""
        async with self._recorded(request.schedule_id, "create"), self._engine.calls() as client:
            with _refusals_as_bad_input(request):
                try:
                    await client.create_schedule(
                        request.schedule_id,
                        translation.to_temporal(request, self._engine.task_queue, note),
                        memo={
                            "crawler" if request.flow is None else "flow": request.subject,
                            "task_queue": self._engine.task_queue,
                        },
                        rpc_timeout=RPC_TIMEOUT,
                    )
                except temporal.ScheduleAlreadyRunningError as error:
                    raise Conflict(f"there is a schedule {request.schedule_id} already") from error
        return await self.show(request.schedule_id)

    async def replace(self, request: ScheduleRequest | ManagerSchedule) -> ScheduleDetails:
        """Replace a schedule's rules. BadInput if the schedule starts another crawler or flow.

        A paused schedule stays paused. The list of occurrences begins anew with the new rules. If the rules are equal,
        the schedule is not changed.
        """
        request = await checked(request, self._context)
        handle, description = await self._our_schedule(request.schedule_id)
        refuse_another_subject(request, translation.action_of(description.schedule))
        if translation.has_rules_of(description.schedule, request):
            return await self.show(request.schedule_id)
        rules = translation.to_temporal(request, self._engine.task_queue, "")
        async with self._recorded(request.schedule_id, "replace"), self._engine.calls() as client:
            with _refusals_as_bad_input(request):
                await replace(client, handle, description, rules, partial(translation.has_rules_of, request=request))
        return await self.show(request.schedule_id)

    async def list(self) -> Sequence[ScheduleSummary]:
        """Return our schedules, sorted by name. A new schedule may take a moment to appear."""
        summaries: list[ScheduleSummary] = []
        async with self._engine.calls() as client:
            async for listed in await client.list_schedules(rpc_timeout=RPC_TIMEOUT):
                memo = await listed.memo()
                if listed.schedule is None or listed.info is None or not translation.lists_our_runs(listed):
                    continue
                if memo.get("task_queue", self._engine.task_queue) != self._engine.task_queue:
                    continue  # another installation's schedule; a schedule without the memo counts as ours
                summary = ScheduleSummary(
                    schedule_id=listed.id,
                    crawler=memo.get("crawler"),
                    flow_id=memo.get("flow"),
                    paused=listed.schedule.state.paused,
                    next_at=[] if listed.schedule.state.paused else list(listed.info.next_action_times),
                    last_started_at=max((action.started_at for action in listed.info.recent_actions), default=None),
                    **translation.times_of(listed.schedule.spec),
                )
                summaries.append(summary)
        return sorted(summaries, key=lambda summary: summary.schedule_id)

    async def show(self, schedule_id: str, *, occurrences: int = 10, before: datetime | None = None) -> ScheduleDetails:
        """Return a schedule and its latest occurrences; with `before`, only occurrences before this time."""
        _, description = await self._our_schedule(schedule_id)
        schedule, info = description.schedule, description.info
        action = translation.action_of(schedule)
        run = action if isinstance(action, RunRequest) else None
        flow = action.definition if isinstance(action, FlowOccurrence) else None
        window = schedule.policy.catchup_window
        latest = await self._occurrences.latest(description, occurrences, before)
        others = [] if before or not occurrences else await self._occurrences.others(description, latest, occurrences)
        return ScheduleDetails(
            schedule_id=schedule_id,
            crawler=run.crawler if run else None,
            flow_id=flow.id if flow else None,
            run=run,
            flow=flow,
            overlap=translation.overlap_of(schedule.policy),
            missed_window_seconds=int(window.total_seconds()) if window else 0,
            paused=schedule.state.paused,
            note=schedule.state.note or "",
            pauses=translation.pauses_in(schedule.state.note or ""),
            next_at=[] if schedule.state.paused else list(info.next_action_times),
            last_started_at=max((action.started_at for action in info.recent_actions), default=None),
            created_at=info.created_at,
            counts=translation.counts_of(description),
            open_workflows=[getattr(action, "workflow_id", "") for action in info.running_actions],
            occurrences=latest,
            other_starts=others,
            commands=await self._context.database(lambda store: store.schedule_log.latest(schedule_id)),
            **translation.times_of(schedule.spec),
        )

    async def pause(self, schedule_id: str, *, reason: str | None = None) -> ScheduleDetails:
        """Let no occurrence start until the schedule is resumed. Runs under way continue."""
        return await self._set_paused(schedule_id, True, reason)

    async def resume(self, schedule_id: str, *, reason: str | None = None) -> ScheduleDetails:
        """Let occurrences start again. Occurrences that were due in the pause stay skipped; `backfill` starts them."""
        return await self._set_paused(schedule_id, False, reason)

    async def _set_paused(self, schedule_id: str, paused: bool, reason: str | None) -> ScheduleDetails:
        """Pause or resume the schedule and add a line to its note, unless the schedule is in this state already."""
        handle, description = await self._our_schedule(schedule_id)
        state = description.schedule.state
        if state.paused is not paused:
            word = translation.PAUSED if paused else translation.RESUMED
            note = translation.with_line(state.note or "", word, _now(), self._context.requester.name, reason)
            change_state = handle.pause if paused else handle.unpause
            async with self._recorded(schedule_id, "pause" if paused else "resume"), self._engine.calls():
                await change_state(note=note, rpc_timeout=RPC_TIMEOUT)
        return await self.show(schedule_id)

    async def trigger(self, schedule_id: str) -> Triggered:
        """Make an occurrence now, also of a paused schedule. The schedule's rule for overlaps applies.

        After the trigger no error is raised: a caller who repeats the command would get a second occurrence.
        """
        handle, before = await self._our_schedule(schedule_id)
        async with self._recorded(schedule_id, "trigger"), self._engine.calls():
            await handle.trigger(rpc_timeout=RPC_TIMEOUT)
        try:
            async with asyncio.timeout(TRIGGER_PATIENCE), self._engine.calls():
                while (outcome := _trigger_outcome(before, await handle.describe(rpc_timeout=RPC_TIMEOUT))) is None:
                    await asyncio.sleep(POLL_PAUSE)
        except (TimeoutError, LifecycleError):
            return Triggered(schedule_id=schedule_id, outcome=OccurrenceOutcome.ASKED)
        return outcome

    async def backfill(
        self, schedule_id: str, since: datetime, until: datetime, *, at_once: bool = False
    ) -> Backfilled:
        """Start every occurrence due from `since` to `until`, also occurrences that have had a run already.

        The runs start one after another; with `at_once` all runs start now.
        """
        if until > _now():
            raise BadInput("until", "must not lie in the future: only past occurrences can be started")
        if since > until:
            raise BadInput("since", "must not be later than until")
        handle, description = await self._our_schedule(schedule_id)
        since -= timedelta(milliseconds=1)  # Temporal leaves out an occurrence at the very beginning
        due = await self._occurrences.due(description.id, since, until, most=PAGE)
        if not due:
            raise BadInput("since", "no occurrence was due in that time")
        if len(due) >= PAGE:
            raise BadInput("since", f"{PAGE} occurrences or more were due in that time: take a shorter time")
        overlap = temporal.ScheduleOverlapPolicy.ALLOW_ALL if at_once else temporal.ScheduleOverlapPolicy.BUFFER_ALL
        async with self._recorded(schedule_id, "backfill"), self._engine.calls():
            await handle.backfill(temporal.ScheduleBackfill(since, until, overlap), rpc_timeout=RPC_TIMEOUT)
        return Backfilled(schedule_id=schedule_id, occurrences=due)

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule; its runs under way continue."""
        handle, _ = await self._our_schedule(schedule_id)
        async with self._recorded(schedule_id, DELETE), self._engine.calls():
            await handle.delete(rpc_timeout=RPC_TIMEOUT)

    @asynccontextmanager
    async def _recorded(self, schedule_id: str, name: str) -> AsyncIterator[None]:
        """Record the command and its requester before the block acts: a deleted schedule has no other record.

        A refused command is forgotten. A command with an unknown outcome stays recorded.
        """
        command = ScheduleCommand.model_validate({"at": _now(), "command": name, **self._context.requester.record})
        await self._context.database(lambda store: store.schedule_log.add(schedule_id, command))
        try:
            yield
        except (BadInput, Conflict, NotFound) as error:
            if name == DELETE and isinstance(error, NotFound):
                raise  # Temporal's client repeats a request without an answer: the first one may have deleted
            await self._context.database(lambda store: store.schedule_log.forget(schedule_id, command))
            raise

    async def _our_schedule(self, schedule_id: str) -> tuple[temporal.ScheduleHandle, temporal.ScheduleDescription]:
        """Return our schedule with this id. NotFound also for a schedule that another application keeps on the same
        server.
        """
        missing = f"there is no schedule {schedule_id[:100]!r}; `crawlctl schedule list` names the schedules"
        if not schedule_id.strip():
            raise NotFound(missing)
        try:
            async with self._engine.calls() as client:
                handle = client.get_schedule_handle(schedule_id)
                description = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except NotFound as error:
            raise NotFound(missing) from error
        if not translation.starts_our_runs(description, self._engine.task_queue):
            raise NotFound(missing)
        return handle, description


def _trigger_outcome(before: temporal.ScheduleDescription, after: temporal.ScheduleDescription) -> Triggered | None:
    """Return the trigger's outcome, by the differences between two descriptions; None: there is no difference yet."""
    counts_before, counts_after = translation.counts_of(before), translation.counts_of(after)
    new_actions = [action for action in after.info.recent_actions if action not in before.info.recent_actions]
    if counts_after.started > counts_before.started and new_actions:
        workflow_id = getattr(new_actions[-1].action, "workflow_id", None)
        return Triggered(schedule_id=after.id, outcome=OccurrenceOutcome.STARTED, workflow_id=workflow_id)
    if counts_after.skipped_overlap > counts_before.skipped_overlap:
        return Triggered(schedule_id=after.id, outcome=OccurrenceOutcome.SKIPPED, reason=SkipReason.OVERLAP)
    if counts_after.queued > counts_before.queued and after.info.running_actions:
        return Triggered(schedule_id=after.id, outcome=OccurrenceOutcome.QUEUED)
    return None


@contextmanager
def _refusals_as_bad_input(request: ScheduleRequest) -> Iterator[None]:
    """Raise BadInput in the block if Temporal refuses the schedule."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        if "Invalid schedule spec" not in error.message:
            raise BadInput("schedule", error.message) from error
        # our own validation covers all rules except the time zone
        expected = f"{request.time_zone!r} is unknown to Temporal: expected a name such as Europe/Berlin"
        raise BadInput("time_zone", expected) from error


def _now() -> datetime:
    return datetime.now(UTC)


async def checked(
    request: ScheduleRequest | ManagerSchedule, context: ControlContext[ScheduleStore]
) -> ScheduleRequest:
    """Return the request with a manager's flow. NotFound: unknown crawler; BadInput: a push would refuse the flow."""
    managers = CatalogueManagers(context)
    if isinstance(request, ManagerSchedule):
        manager = request.manager
        definition = await managers.definition(manager.name, request.schedule_id, manager.arguments)
        request = request.with_flow(definition)
    elif request.flow is not None:
        request = request.model_copy(update={"flow": await managers.with_classes(request.flow)})
    await _check(request, context)
    return request


async def _check(request: ScheduleRequest, context: ControlContext[ScheduleStore]) -> None:
    if request.flow is not None:
        check_outside(request.flow)
        merging.push(merging.new_ledger(request.flow), request.flow, datetime.now(UTC))
    for crawler in _crawlers(request):
        await context.scheduler(methodcaller("crawler", crawler))


def refuse_another_subject(request: ScheduleRequest, present: Action | None) -> None:
    """Raise BadInput if the schedule starts another crawler or flow at present. None: its input is not valid."""
    if present is None:
        return
    is_flow = isinstance(present, FlowOccurrence)
    subject = present.definition.id if isinstance(present, FlowOccurrence) else present.crawler
    if (is_flow, subject) != (request.flow is not None, request.subject):
        starts = f"flows {subject!r}" if is_flow else subject
        raise BadInput(
            "flow" if is_flow else "crawler",
            f"schedule {request.schedule_id} starts {starts}: delete the schedule, or take another name",
        )


def _crawlers(request: ScheduleRequest) -> list[str]:
    if request.flow is None:
        return [request.subject]
    works = (member.work for member in request.flow.members)
    return sorted({work.request.crawler for work in works if isinstance(work, CrawlWork)})
