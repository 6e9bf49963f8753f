"""Flows in memory: the client of the service for programs that push workflows and wait for them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Self

from crawler_lifecycle.client.blocking import LoopThread, SyncFlows
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows import Workflow, opened
from crawler_lifecycle.flows.authors.running import running_job
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.rules.pruning import AFTER_A_DAY, Rule
from crawler_lifecycle.testing.client import MemoryClient
from crawler_lifecycle.testing.memory import NOW
from crawler_lifecycle.testing.play import Play
from crawler_lifecycle.testing.records import MemoryLedger
from crawler_lifecycle.testing.scenario import NO_SCENARIO, Scenario


class MemoryFlows(MemoryClient):
    """A client in place of `Flows`, with flows in memory. All flows run to their ends when the block ends.

    A wait lets the awaited flow run; time is virtual.
    """

    def __init__(self, scenario: Scenario = NO_SCENARIO, *, now: datetime = NOW) -> None:
        super().__init__(MemoryLedger(self._made))
        self.scenario = scenario
        self.now = now
        self.plays: dict[str, Play] = {}  # by id

    @classmethod
    @asynccontextmanager
    async def open(cls, scenario: Scenario = NO_SCENARIO, *, now: datetime = NOW) -> AsyncIterator[Self]:
        flows = cls(scenario, now=now)
        with opened(flows):
            yield flows
            flows.run_all()

    @classmethod
    @contextmanager
    def open_sync(cls, scenario: Scenario = NO_SCENARIO, *, now: datetime = NOW) -> Iterator[SyncFlows]:
        """Open a client in code that is not async."""
        flows = cls(scenario, now=now)
        with LoopThread() as thread, opened(flows):
            flows._loop = thread.run(_running_loop())
            yield SyncFlows(flows)
            flows.run_all()

    def run_all(self) -> None:
        """Let all flows run to their ends or standstills."""
        for play in list(self.plays.values()):
            play.run()

    async def wait(
        self,
        id: str,  # noqa: A002 - the name that authors know
        *,
        timeout: float | timedelta | None = None,
    ) -> Workflow:
        """Let the workflow run, and return the workflow after its end. TimeoutError after the virtual time.

        A timeout of 0 is over at once, as with the service, even if the workflow has ended.
        """
        step, play = running_job(), self.plays[id]
        if step is not None and step.flow_id == id:
            raise Conflict(f"{step.path!r} cannot wait for the end of its own workflow, which waits for the step's end")
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if seconds is None:
            play.run()
        else:
            play.run(seconds=seconds)
        if seconds is not None and seconds <= 0:
            raise TimeoutError(f"flow {id!r}: the timeout is {seconds} seconds")
        if not play.status.state.is_final:
            waiting = ", ".join(row.path for row in play.ledger.members.values() if not row.is_settled)
            raise TimeoutError(f"flow {id!r} waits for {waiting}")
        ended = await self.fetch_one(id)
        assert ended is not None
        return ended

    async def prune(self, rule: Rule = AFTER_A_DAY) -> int:
        """Delete ended workflows by their virtual age."""
        ages = {play.uid: play.now - play.status.stopped_at for play in self.plays.values() if play.status.stopped_at}
        count = self.ledger.prune([uid for uid, age in ages.items() if rule.holds(age)])
        self.plays = {id_: play for id_, play in self.plays.items() if id_ in self.ledger.flows}
        return count

    def _made(self, definition: FlowDefinition) -> Play:
        play = self.plays[definition.id] = Play(definition, self.scenario, now=self.now, client=self)
        return play


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
