"""Those who start runs, stop them, go on with them, and take no outage for an answer."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from temporalio.service import RPCError

from crawler_lifecycle.errors import LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.model.answers import Started, Stopping
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from tests.chaos.ground import Ground
from tests.chaos.lives import Deed, Life

PAUSE = 1.0
STOP_TRIES = 5
STOPPER = "chaos"


@dataclass
class People:
    """`accepted`: what was answered to be done, by run. `refused`: requests that never became a run.

    `unrecorded`: the accepted stops that only the run's workflow knew. A termination loses them, as promised.
    """

    ground: Ground
    runs: dict[int, Started] = field(default_factory=dict)
    accepted: dict[int, Counter[Deed]] = field(default_factory=dict)
    unrecorded: defaultdict[int, Counter[Deed]] = field(default_factory=lambda: defaultdict(Counter))
    refused: list[str] = field(default_factory=list)
    reopened_at: dict[int, float] = field(default_factory=dict)  # or tried to

    async def ask_for(self, key: str, request: RunRequest) -> Started | None:
        """Again and again, until it is a run: the same key is the same request."""
        while True:
            try:
                started = await self.ground.site.control.runs.start(request, key)
            except TemporaryError:
                await asyncio.sleep(PAUSE)
            except PermanentError as error:
                self.refused.append(f"request {key} was refused: {error.message}")
                return None
            else:
                self.runs[started.run_id] = started
                self.accepted[started.run_id] = Counter()
                return started

    async def live(self, life: Life, began: float, calm_at: float) -> None:
        """The course of one run; in the calm nothing is asked of it any more, and it may end."""
        await until_moment(began + life.starts_at)
        run = await self.ask_for(f"life-{life.number}", life.request)
        if run is None:
            return
        since = time.monotonic()
        deeds = [(since + at, deed) for at, deed in life.deeds if since + at < calm_at]
        release: list[tuple[float, Deed | None]] = [(min(since + life.released_at, calm_at), None)]
        for at, deed in sorted([*release, *deeds], key=lambda moment: moment[0]):
            await until_moment(at)
            if deed is None:
                self.release(run, life.codes)
            else:
                await self.do(deed, run)

    def release(self, run: Started, codes: Iterable[int]) -> None:
        by_task = dict(enumerate(codes))
        self.ground.site.release(run, *by_task, codes=by_task)

    async def do(self, deed: Deed, run: Started) -> None:
        """What is refused, as it came too late or too early, is nothing to insist on."""
        with suppress(LifecycleError, RPCError):
            await self._do(deed, run)
            self.accepted[run.run_id][deed] += 1

    async def _do(self, deed: Deed, run: Started) -> None:
        control = self.ground.site.control
        if deed in (Deed.STOP, Deed.FORCE):
            stopping = await self._stop(run, force=deed is Deed.FORCE)
            if stopping.not_on_record is not None:
                self.unrecorded[run.run_id][deed] += 1
        elif deed is Deed.RESUME:
            await control.runs.resume(run.run_id)
        elif deed is Deed.REOPEN:
            self.reopened_at[run.run_id] = time.time()
            self.release(run, [0] * len(self.ground.site.statuses(run)))  # what failed succeeds this time
            await control.runs.resume(run.run_id, reopen=True)
        elif deed is Deed.EXPORT:
            await control.runs.export(run.run_id)
        else:
            handle = (await control.engine.client()).get_workflow_handle(run.workflow_id)
            await (handle.cancel() if deed is Deed.CANCEL else handle.terminate("chaos"))
            if deed is Deed.TERMINATE:
                self.accepted[run.run_id] -= self.unrecorded.pop(run.run_id, Counter())

    async def _stop(self, run: Started, *, force: bool) -> Stopping:
        for _ in range(STOP_TRIES - 1):
            with suppress(TemporaryError):
                return await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor=STOPPER, force=force))
            await asyncio.sleep(PAUSE)
        return await self.ground.site.control.runs.stop(run.run_id, StopRequest(actor=STOPPER, force=force))

    def broken_promises(self, run: Started, events: Mapping[str, int]) -> list[str]:
        """`events`: the lines of its log. What was answered to be done has to be there."""
        done = self.accepted[run.run_id]
        expected = {
            "a stop": (done[Deed.STOP] + done[Deed.FORCE] > 0, events.get("stop", 0) + events.get("force stop", 0)),
            "a reopening": (done[Deed.REOPEN] > 0, events.get("reopened", 0)),
        }
        return [f"{what} was accepted, and its log has none" for what, (is_so, has) in expected.items() if is_so > has]


async def until_moment(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
