"""The verbs of schedules. Temporal alone keeps schedules; each occurrence is a workflow under an id of its own."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from temporalio.client import (
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleOverlapPolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.contract.schedules import (
    Backfilled,
    Outcome,
    ScheduleDetails,
    ScheduleRequest,
    ScheduleSummary,
    SkipReason,
    Triggered,
)
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import RPC_TIMEOUT, Engine
from crawler_lifecycle.control.schedules import forms, pauses, replacement
from crawler_lifecycle.control.schedules.occurrences import PAGE, Occurrences
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound

TRIGGER_PATIENCE = 20.0
LOOK_PAUSE = 0.2


class Schedules:
    def __init__(self, context: Context, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._occurrences = Occurrences(context, engine)

    async def create(self, request: ScheduleRequest, *, actor: str | None = None) -> ScheduleDetails:
        """A schedule that goes, or an error and nothing made."""
        entry = await self._context.scheduler(lambda scheduler: scheduler.crawler(request.run.crawler))
        note = pauses.with_line("", pauses.PAUSED, _now(), actor, "made so") if request.paused else ""
        client = await self._engine.client()
        async with self._engine.translated():
            with _refused(request):
                try:
                    await client.create_schedule(
                        request.schedule_id,
                        forms.to_temporal(request, self._engine.task_queue, note),
                        memo={"crawler": entry.name, "task_queue": self._engine.task_queue},
                        rpc_timeout=RPC_TIMEOUT,
                    )
                except ScheduleAlreadyRunningError as error:
                    raise Conflict(f"there is a schedule {request.schedule_id} already") from error
        return await self.show(request.schedule_id)

    async def replace(self, request: ScheduleRequest) -> ScheduleDetails:
        """Give the schedule of this name other rules. Its crawler stays, and so does the state paused or not paused.

        The list of occurrences begins anew with the other rules. Equal rules change nothing."""
        await self._context.scheduler(lambda scheduler: scheduler.crawler(request.run.crawler))
        handle, description = await self._ours(request.schedule_id)
        was = forms.run_of(forms.action_of(description.schedule))
        if was is not None and was.crawler != request.run.crawler:
            raise BadInput(
                "crawler", f"schedule {request.schedule_id} is one of {was.crawler}: delete it, or take another name"
            )
        if forms.goes_by(description.schedule, request):
            return await self.show(request.schedule_id)
        client, rules = await self._engine.client(), forms.to_temporal(request, self._engine.task_queue, "")
        async with self._engine.translated():
            with _refused(request):
                await replacement.replace(client, handle, description, rules, partial(forms.goes_by, request=request))
        return await self.show(request.schedule_id)

    async def list(self) -> Sequence[ScheduleSummary]:
        """By name. A schedule that was just made may take a moment to appear."""
        client = await self._engine.client()
        found: list[ScheduleSummary] = []
        async with self._engine.translated():
            async for each in await client.list_schedules(rpc_timeout=RPC_TIMEOUT):
                memo = await each.memo()
                if each.schedule is None or each.info is None or not forms.lists_our_runs(each):
                    continue
                if memo.get("task_queue", self._engine.task_queue) != self._engine.task_queue:
                    continue
                summary = ScheduleSummary(
                    schedule_id=each.id,
                    crawler=memo.get("crawler"),
                    paused=each.schedule.state.paused,
                    next_at=[] if each.schedule.state.paused else list(each.info.next_action_times),
                    last_started_at=max((action.started_at for action in each.info.recent_actions), default=None),
                    **forms.of_spec(each.schedule.spec),
                )
                found.append(summary)
        return sorted(found, key=lambda each: each.schedule_id)

    async def show(self, schedule_id: str, *, occurrences: int = 10, before: datetime | None = None) -> ScheduleDetails:
        """With so many of its latest occurrences, or of those before a time."""
        _, description = await self._ours(schedule_id)
        schedule, info = description.schedule, description.info
        run = forms.run_of(forms.action_of(schedule))
        window = schedule.policy.catchup_window
        return ScheduleDetails(
            schedule_id=schedule_id,
            crawler=run.crawler if run else None,
            run=run,
            overlap=forms.overlap_of(schedule.policy),
            missed_window_seconds=int(window.total_seconds()) if window else 0,
            paused=schedule.state.paused,
            note=schedule.state.note or "",
            pauses=pauses.pauses(schedule.state.note or ""),
            next_at=[] if schedule.state.paused else list(info.next_action_times),
            last_started_at=max((action.started_at for action in info.recent_actions), default=None),
            created_at=info.created_at,
            counts=forms.counts_of(description),
            open_workflows=[getattr(action, "workflow_id", "") for action in info.running_actions],
            occurrences=await self._occurrences.latest(description, occurrences, before),
            **forms.of_spec(schedule.spec),
        )

    async def pause(self, schedule_id: str, *, actor: str | None = None, reason: str | None = None) -> ScheduleDetails:
        """No occurrence starts until it is resumed; runs under way go on. Paused already: as it was."""
        handle, description = await self._ours(schedule_id)
        if not description.schedule.state.paused:
            async with self._engine.translated():
                note = description.schedule.state.note or ""
                note = pauses.with_line(note, pauses.PAUSED, _now(), actor, reason)
                await handle.pause(note=note, rpc_timeout=RPC_TIMEOUT)
        return await self.show(schedule_id)

    async def resume(self, schedule_id: str, *, actor: str | None = None, reason: str | None = None) -> ScheduleDetails:
        """What was due meanwhile stays skipped: `backfill` makes up for it."""
        handle, description = await self._ours(schedule_id)
        if description.schedule.state.paused:
            async with self._engine.translated():
                note = description.schedule.state.note or ""
                note = pauses.with_line(note, pauses.RESUMED, _now(), actor, reason)
                await handle.unpause(note=note, rpc_timeout=RPC_TIMEOUT)
        return await self.show(schedule_id)

    async def trigger(self, schedule_id: str) -> Triggered:
        """An occurrence now, also of a schedule that is paused; its overlap policy holds.

        Once it is made no error is raised: who asked again would get another."""
        handle, before = await self._ours(schedule_id)
        async with self._engine.translated():
            await handle.trigger(rpc_timeout=RPC_TIMEOUT)
        try:
            async with asyncio.timeout(TRIGGER_PATIENCE), self._engine.translated():
                while (came := _came_of_it(before, await handle.describe(rpc_timeout=RPC_TIMEOUT))) is None:
                    await asyncio.sleep(LOOK_PAUSE)
        except (TimeoutError, LifecycleError):
            return Triggered(schedule_id=schedule_id, outcome=Outcome.ASKED)
        return came

    async def backfill(
        self, schedule_id: str, since: datetime, until: datetime, *, at_once: bool = False
    ) -> Backfilled:
        """Starts what was due from `since` to `until`, whether it ran or not: one after another, or all at once."""
        if until > _now():
            raise BadInput("until", "must not lie in the future: only what was due can be started")
        if since > until:
            raise BadInput("since", "must not be later than until")
        handle, description = await self._ours(schedule_id)
        since -= timedelta(milliseconds=1)  # Temporal leaves out the beginning
        due = await self._occurrences.due(description.id, since, until, most=PAGE)
        if not due:
            raise BadInput("since", "nothing was due in that time")
        if len(due) >= PAGE:
            raise BadInput("since", f"{PAGE} occurrences or more were due in that time: take a shorter one")
        overlap = ScheduleOverlapPolicy.ALLOW_ALL if at_once else ScheduleOverlapPolicy.BUFFER_ALL
        async with self._engine.translated():
            await handle.backfill(ScheduleBackfill(since, until, overlap), rpc_timeout=RPC_TIMEOUT)
        return Backfilled(schedule_id=schedule_id, occurrences=due)

    async def delete(self, schedule_id: str) -> None:
        """Runs under way go on."""
        handle, _ = await self._ours(schedule_id)
        async with self._engine.translated():
            await handle.delete(rpc_timeout=RPC_TIMEOUT)

    async def _ours(self, schedule_id: str) -> tuple[ScheduleHandle, ScheduleDescription]:
        """NotFound also for one of another application on the same server: that is none of our business."""
        missing = f"there is no schedule {schedule_id[:100]!r}; `crawlctl schedule list` names those that there are"
        if not schedule_id.strip():
            raise NotFound(missing)
        handle = (await self._engine.client()).get_schedule_handle(schedule_id)
        try:
            async with self._engine.translated():
                description = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except NotFound as error:
            raise NotFound(missing) from error
        if not forms.starts_our_runs(description, self._engine.task_queue):
            raise NotFound(missing)
        return handle, description


def _came_of_it(before: ScheduleDescription, after: ScheduleDescription) -> Triggered | None:
    known, counts = forms.counts_of(before), forms.counts_of(after)
    new = [action for action in after.info.recent_actions if action not in before.info.recent_actions]
    if counts.started > known.started and new:
        workflow_id = getattr(new[-1].action, "workflow_id", None)
        return Triggered(schedule_id=after.id, outcome=Outcome.STARTED, workflow_id=workflow_id)
    if counts.skipped_overlap > known.skipped_overlap:
        return Triggered(schedule_id=after.id, outcome=Outcome.SKIPPED, reason=SkipReason.OVERLAP)
    if counts.queued > known.queued and after.info.running_actions:
        return Triggered(schedule_id=after.id, outcome=Outcome.QUEUED)
    return None


@contextmanager
def _refused(request: ScheduleRequest) -> Iterator[None]:
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        if "Invalid schedule spec" not in error.message:
            raise BadInput("schedule", error.message) from error
        # all else of that has been looked at before
        expected = f"{request.time_zone!r} is unknown to Temporal: expected a name such as Europe/Berlin"
        raise BadInput("time_zone", expected) from error


def _now() -> datetime:
    return datetime.now(UTC)
