"""Fifty runs in every stage, of which some go on and some end at every outage; the others wait through all of them.

A flow of steps is under way at every outage, and so are crawl managers.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from temporalio.service import RPCError

from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.limits.ports import Limits
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.reasons import ADMISSION
from crawler_lifecycle.model.records import ALL_RUNS, RunDetails
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.chaos.comparison import divergences
from tests.chaos.crowd_managers import CRAWLS, CrowdOfManagers
from tests.chaos.faults import Fault, faults
from tests.chaos.flow_comparison import compared_flow, told_flow
from tests.chaos.flow_lives import FlowDeed
from tests.chaos.flow_people import FlowPeople
from tests.chaos.graph import calls_in
from tests.chaos.ground import Ground
from tests.chaos.people import People
from tests.chaos.permits import Permits
from tests.kit.waiting import InVain, eventually_async
from tests.process.crawls import most_at_once

RUNNING, STOPPING, WAITING, HELD = 24, 10, 8, 4
LIMITED, PERMITS = 4, 2  # runs of a label with a limit, and how many of them have a permit
HELD_LABEL, LIMITED_LABEL = "crowd:held", "crowd:limited"
PLACES = RUNNING + STOPPING + PERMITS + CRAWLS
END, STOP = 4, 1  # at each outage so many end, half of them a moment before, and are stopped
LOSE = 2  # and so many lose their job just before, and get their next attempt in the outage
BEGIN = END + STOP  # and are asked for
ITEMS = 4  # steps of the flow that is under way at each outage
LASTS = 3.0
PATIENCE = 150.0
FOR_LONG = 3600
EXPORT = "export_supporting_files"
CODES = (0, 0, 5, 0)
RETRIES = Retries(infrastructure=100, pause_seconds=1)


@dataclass
class Crowd:
    """`running` and `stopping` have a place each, `waiting` have none yet. A pause keeps `held` from their permits.

    Of `limited`, which share a limit, the first have a permit, and the others wait for theirs."""

    ground: Ground
    people: People
    running: list[Started] = field(default_factory=list)
    stopping: list[Started] = field(default_factory=list)
    waiting: list[Started] = field(default_factory=list)
    held: list[Started] = field(default_factory=list)
    limited: list[Started] = field(default_factory=list)
    over: list[Started] = field(default_factory=list)
    _number: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        # main tasks never take the last place of a cap
        self.flow_people = FlowPeople(self.ground)
        self.managers = CrowdOfManagers(self.ground)
        self.permits = Permits(self.ground, f"label:{LIMITED_LABEL}", runs=PERMITS, tasks=PERMITS + 1)

    async def gather(self) -> None:
        """Until each is where it is to be."""
        self.limited = [await self._ask(labels=[LIMITED_LABEL]) for _ in range(LIMITED)]
        asked = [self._ask("stubborn") for _ in range(STOPPING)] + [self._ask() for _ in range(RUNNING)]
        found = await asyncio.gather(*asked)
        self.stopping, self.running = found[:STOPPING], found[STOPPING:]
        await self._until_all(found, TaskStatus.RUNNING)
        await self.managers.gather()
        self.waiting = await asyncio.gather(*(self._ask() for _ in range(WAITING)))
        self.limits.pause(f"label:{HELD_LABEL}", "chaos", None)
        self.held = await asyncio.gather(*(self._ask(labels=[HELD_LABEL]) for _ in range(HELD)))
        for run in self.stopping:
            await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor="chaos"))
        await self._until_all(self.held, TaskStatus.QUEUED)
        await self._until_all(self.stopping, TaskStatus.STOPPING)
        await self._until_all(self.waiting, TaskStatus.PENDING)
        await self._until_permits_are_given()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch the limit during the block."""
        watching = asyncio.create_task(self.permits.watch())
        try:
            yield
        finally:
            watching.cancel()

    async def live_through(self, *names: str) -> None:
        """All of these at once; then everybody is where they should be, and what has ended has ended right."""
        known = faults(self.ground)
        ending, stopped = self.running[:END], self.running[END : END + STOP]
        lost = self.running[END + STOP : END + STOP + LOSE]
        del self.running[: END + STOP + LOSE]
        limited = await self._limited_that_runs()
        managed = await self.managers.crawls_to_end()
        early, late = ending[: END // 2], ending[END // 2 :]
        flow_id = await self._push_flow()
        beginning = await self._let_some_be_in_the_middle(early)
        attempts = [await self._lose(run) for run in lost]
        begun, over = asyncio.Barrier(len(names) + 1), asyncio.Event()
        outages = [asyncio.create_task(self._happen(known[name], begun, over)) for name in names]
        await begun.wait()
        if "s3 silent" not in names:
            self.ground.outside.doors["s3"].let_go()
        for number, run in enumerate(late):
            self._release(run, CODES[END // 2 + number])
        for run in limited:
            self._release(run, 0)
        self.managers.release(managed)
        stops = asyncio.gather(*(self._stop(run) for run in stopped))
        await asyncio.sleep(LASTS)
        over.set()
        await asyncio.gather(*outages)
        await stops
        self.waiting += await beginning
        await self._until_retried(lost, attempts)
        self.waiting += lost
        self.limited += [await self._ask(labels=[LIMITED_LABEL]) for _ in limited]
        for run in [*ending, *stopped, *limited]:
            await self._until_right(run)
        await self._until_flow_is_right(flow_id)
        await self.managers.until_reacted()
        await self._until_places_are_taken()
        await self._until_permits_are_given()
        self._assert_the_others_wait()

    async def _happen(self, fault: Fault, begun: asyncio.Barrier, over: asyncio.Event) -> None:
        """Together with the others; what comes back may need what the others took away."""
        async with fault.happens(self.ground, Random(fault.name)):
            await begun.wait()
            await over.wait()

    async def _let_some_be_in_the_middle(self, ending: Sequence[Started]) -> "asyncio.Future[list[Started]]":
        """Some are being exported, which S3 takes its time for, and some are just being asked for."""
        self.ground.outside.doors["s3"].hold()
        for number, run in enumerate(ending):
            self._release(run, CODES[number])
        for run in ending:
            await self.ground.site.under_way(run.workflow_id, EXPORT)
        beginning = asyncio.gather(*(self._ask() for _ in range(BEGIN)))
        await asyncio.sleep(0.2)
        return beginning

    async def end(self) -> list[str]:
        """The gates are opened, and those that do not listen to their stop are forced; what is wrong then."""
        self.limits.resume(f"label:{HELD_LABEL}", None)
        for run in [*self.running, *self.waiting, *self.held, *self.limited]:
            self._release(run, 0)
        for run in self.stopping:
            await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor="chaos", force=True))
        for run in [*self.running, *self.waiting, *self.stopping, *self.held, *self.limited]:
            await self._until_right(run)
        wrong = [*await self.managers.end(), *self.people.refused]
        return [*wrong, *await asyncio.to_thread(self.permits.problems), *self._most_limited_jobs()]

    def _most_limited_jobs(self) -> Iterator[str]:
        """Compare the limit with the jobs' own records."""
        labelled = [run for run in self.over if self.ground.site.details(run).run.request.labels == [LIMITED_LABEL]]
        most = most_at_once([span for run in labelled for span in self.ground.site.spans(run).values()])
        if most != PERMITS:
            yield f"{most} jobs with the limited label ran at once, and {PERMITS} permits were there"

    # One flow

    async def _push_flow(self) -> str:
        """Push a flow of steps, and wait until some of them are under way. A crawl would take a place of the crowd."""
        flow_id = f"crowd-flow-{next(self._number)}"
        await self.flow_people.push(flow_id, ITEMS, None)
        uid, _ = self.flow_people.flows.row(flow_id)

        async def is_under_way() -> bool:
            return any(path.startswith("items/") for path, _ in calls_in(self.ground.steps, uid))

        await eventually_async(is_under_way, f"steps of {flow_id} to be under way", PATIENCE, pause=0.2)
        return flow_id

    async def _until_flow_is_right(self, flow_id: str) -> None:
        """Approve and retry what waits for people, until the flow has ended as its functions have it."""
        problems = ["it has not ended"]

        async def right() -> bool:
            await self.flow_people.do(FlowDeed.APPROVE, flow_id)
            await self.flow_people.do(FlowDeed.RETRY, flow_id)
            with suppress(LifecycleError):
                _, row = await asyncio.to_thread(self.flow_people.flows.row, flow_id)
                if row.state is FlowState.COMPLETED:
                    seen = await asyncio.to_thread(
                        told_flow, self.ground.site.control, self.ground.steps, flow_id, ITEMS
                    )
                    problems[:] = compared_flow(seen)
            return not problems

        await eventually_async(right, f"{flow_id} to be over and right", PATIENCE, pause=1.0, seen=lambda: problems)

    # One run

    @property
    def limits(self) -> Limits:
        return self.ground.site.control.parts.store.limits

    async def _ask(self, crawler: str = "polite", labels: Sequence[str] = ()) -> Started:
        request = RunRequest(crawler=crawler, grace_seconds=FOR_LONG, labels=list(labels), retries=RETRIES)
        run = await self.people.ask_for(f"crowd-{next(self._number)}", request)
        assert run, self.people.refused
        return run

    async def _lose(self, run: Started) -> int:
        """Kill the run's job with its runner just before the outage, and return the attempt."""
        (task,) = self.ground.site.details(run).tasks
        await self.ground.site.lose(run, 0, task.attempt)
        await self.ground.site.nudge(run)
        return task.attempt

    async def _until_retried(self, runs: Sequence[Started], former: Sequence[int]) -> None:
        for run, attempt in zip(runs, former, strict=True):

            async def retried(run: Started = run, attempt: int = attempt) -> bool:
                with suppress(RPCError):  # nobody else tells of a runner that was killed
                    await self.ground.site.nudge(run)
                details = await self._details(run)
                return details is not None and details.tasks[0].attempt == attempt + 1

            await eventually_async(retried, f"run {run.run_id} to get its next attempt", PATIENCE, pause=1.0)

    async def _limited_that_runs(self) -> list[Started]:
        """Take one of the runs with a permit whose job runs; a job may wait for a place instead."""
        for run in self.limited:
            if await asyncio.to_thread(self.ground.site.statuses, run) == [TaskStatus.RUNNING]:
                self.limited.remove(run)
                return [run]
        return []

    def _release(self, run: Started, code: int) -> None:
        self.people.release(run, [code])

    async def _stop(self, run: Started) -> None:
        async def accepted() -> bool:
            try:
                await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor="chaos"))
            except TemporaryError:
                return False
            return True

        await eventually_async(accepted, f"a stop of run {run.run_id} to be accepted", PATIENCE, pause=1.0)

    async def _until_right(self, run: Started) -> None:
        """Over and handed over, everybody is told, and its workflow is closed: as its job itself has it."""

        async def right() -> bool:
            details = await self._details(run)
            if not details or not details.run.status.is_over or not details.is_handed_over:
                return False
            return not await asyncio.to_thread(divergences, self.ground, run)

        try:
            await eventually_async(right, f"run {run.run_id} to be over and right", PATIENCE, pause=0.5)
        except InVain as error:
            raise AssertionError(f"{error}: {divergences(self.ground, run)}") from error
        self.over.append(run)

    async def _details(self, run: Started) -> RunDetails | None:
        try:
            return await asyncio.to_thread(self.ground.site.details, run)
        except LifecycleError:
            return None

    # All of them

    async def _until_places_are_taken(self) -> None:
        """By those that have waited longest, which is the cluster's to know."""

        async def taken() -> bool:
            with suppress(LifecycleError):
                for run in list(self.waiting):
                    if await asyncio.to_thread(self.ground.site.statuses, run) == [TaskStatus.RUNNING]:
                        self.waiting.remove(run)
                        self.running.append(run)
                further = await self._running_of_the_limited() + await self.managers.running()
                return len(self.running) + further == RUNNING + PERMITS + CRAWLS
            return False

        await eventually_async(taken, "the places that are free to be taken", PATIENCE, pause=0.2)

    async def _running_of_the_limited(self) -> int:
        """A run with a permit may wait for its place behind others, who then have the place."""
        statuses = [await asyncio.to_thread(self.ground.site.statuses, run) for run in self.limited]
        return statuses.count([TaskStatus.RUNNING])

    async def _until_permits_are_given(self) -> None:
        async def given() -> bool:
            details = [await self._details(run) for run in self.limited]
            runs = [seen.run for seen in details if seen]
            waiting = [run for run in runs if run.admitted_at is None]
            return len(runs) - len(waiting) == PERMITS and all(run.waiting_cause == ADMISSION for run in waiting)

        await eventually_async(given, f"{PERMITS} runs to have a permit, and the others to wait", PATIENCE, pause=0.5)

    async def _until_all(self, runs: Sequence[Started], status: TaskStatus) -> None:
        for run in runs:

            async def there(run: Started = run) -> bool:
                details = await self._details(run)
                return bool(details) and [task.status for task in details.tasks] == [status]  # type: ignore[union-attr]

            await eventually_async(there, f"run {run.run_id} to be {status}", PATIENCE, pause=0.2)

    def _assert_the_others_wait(self) -> None:
        """None of them was ended, lost or forgotten by what happened."""
        listed = {run.run_id: run for run in self.ground.site.control.runs.select(ALL_RUNS, limit=1000)}
        alive = {run.run_id for run in [*self.running, *self.stopping, *self.waiting, *self.held, *self.limited]}
        assert listed.keys() == alive | {run.run_id for run in self.over}
        assert {run_id for run_id, run in listed.items() if not run.status.is_over} == alive
        assert all(listed[run.run_id].status is RunStatus.STOPPING for run in self.stopping)
        assert {listed[run.run_id].waiting_cause for run in self.held} == {"paused"}
        assert not any(self.ground.site.jobs(run) for run in self.held)
