"""Fifty runs in every stage, of which some go on and some end at every outage; the others wait through all of them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from crawler_lifecycle.contract.records import RunDetails
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.control.reading import is_handed_over
from crawler_lifecycle.control.runs import Started
from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.ports import Limits
from tests.chaos.comparison import divergences
from tests.chaos.faults import Fault, faults
from tests.chaos.ground import Ground
from tests.chaos.people import People
from tests.waiting import InVain, eventually_async

RUNNING, STOPPING, WAITING, HELD = 24, 10, 10, 6
HELD_LABEL = "crowd:held"
PLACES = RUNNING + STOPPING
END, STOP = 4, 1  # at each outage so many end, half of them a moment before, and are stopped
BEGIN = END + STOP  # and are asked for
LASTS = 3.0
PATIENCE = 150.0
FOR_LONG = 3600
EXPORT = "export_supporting_files"
CODES = (0, 0, 5, 0)


@dataclass
class Crowd:
    """`running` and `stopping` have a place each, `waiting` have none yet. A pause keeps `held` from their permits."""

    ground: Ground
    people: People
    running: list[Started] = field(default_factory=list)
    stopping: list[Started] = field(default_factory=list)
    waiting: list[Started] = field(default_factory=list)
    held: list[Started] = field(default_factory=list)
    over: list[Started] = field(default_factory=list)
    _number: "count[int]" = field(default_factory=count)

    async def gather(self) -> None:
        """Until each is where it is to be."""
        asked = [self._ask("stubborn") for _ in range(STOPPING)] + [self._ask() for _ in range(RUNNING)]
        found = await asyncio.gather(*asked)
        self.stopping, self.running = found[:STOPPING], found[STOPPING:]
        await self._until_all(found, TaskStatus.RUNNING)
        self.waiting = await asyncio.gather(*(self._ask() for _ in range(WAITING)))
        self.limits.pause(f"label:{HELD_LABEL}", "chaos", None)
        self.held = await asyncio.gather(*(self._ask(labels=[HELD_LABEL]) for _ in range(HELD)))
        for run in self.stopping:
            await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor="chaos"))
        await self._until_all(self.held, TaskStatus.QUEUED)
        await self._until_all(self.stopping, TaskStatus.STOPPING)
        await self._until_all(self.waiting, TaskStatus.PENDING)

    async def live_through(self, *names: str) -> None:
        """All of these at once; then everybody is where they should be, and what has ended has ended right."""
        known = faults(self.ground)
        ending, stopped = self.running[:END], self.running[END : END + STOP]
        del self.running[: END + STOP]
        early, late = ending[: END // 2], ending[END // 2 :]
        beginning = await self._let_some_be_in_the_middle(early)
        begun, over = asyncio.Barrier(len(names) + 1), asyncio.Event()
        outages = [asyncio.create_task(self._happen(known[name], begun, over)) for name in names]
        await begun.wait()
        if "s3 silent" not in names:
            self.ground.outside.doors["s3"].let_go()
        for number, run in enumerate(late):
            self._release(run, CODES[END // 2 + number])
        stops = asyncio.gather(*(self._stop(run) for run in stopped))
        await asyncio.sleep(LASTS)
        over.set()
        await asyncio.gather(*outages)
        await stops
        self.waiting += await beginning
        for run in [*ending, *stopped]:
            await self._until_right(run)
        await self._until_places_are_taken()
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
        for run in [*self.running, *self.waiting, *self.held]:
            self._release(run, 0)
        for run in self.stopping:
            await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor="chaos", force=True))
        for run in [*self.running, *self.waiting, *self.stopping, *self.held]:
            await self._until_right(run)
        return self.people.refused

    # One run

    @property
    def limits(self) -> Limits:
        return self.ground.site.control.parts.store.limits

    async def _ask(self, crawler: str = "polite", labels: Sequence[str] = ()) -> Started:
        request = RunRequest(crawler=crawler, grace_seconds=FOR_LONG, labels=list(labels))
        run = await self.people.ask_for(f"crowd-{next(self._number)}", request)
        assert run, self.people.refused
        return run

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
            if not details or not details.run.status.is_over or not is_handed_over(details):
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
            return len(self.running) == RUNNING

        await eventually_async(taken, "the places that are free to be taken", PATIENCE, pause=0.2)

    async def _until_all(self, runs: Sequence[Started], status: TaskStatus) -> None:
        for run in runs:

            async def there(run: Started = run) -> bool:
                details = await self._details(run)
                return bool(details) and [task.status for task in details.tasks] == [status]  # type: ignore[union-attr]

            await eventually_async(there, f"run {run.run_id} to be {status}", PATIENCE, pause=0.2)

    def _assert_the_others_wait(self) -> None:
        """None of them was ended, lost or forgotten by what happened."""
        listed = {run.run_id: run for run in self.ground.site.control.runs.list(limit=1000)}
        alive = {run.run_id for run in [*self.running, *self.stopping, *self.waiting, *self.held]}
        assert listed.keys() == alive | {run.run_id for run in self.over}
        assert {run_id for run_id, run in listed.items() if not run.status.is_over} == alive
        assert all(listed[run.run_id].status is RunStatus.STOPPING for run in self.stopping)
        assert {listed[run.run_id].waiting_cause for run in self.held} == {"paused"}
        assert not any(self.ground.site.jobs(run) for run in self.held)
