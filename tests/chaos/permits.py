"""Permits in a soak or an outage: runs share a label with a limit, which is never exceeded, and no permit leaks."""

import asyncio
from contextlib import suppress

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.limits.ports import Limits
from crawler_lifecycle.model.limits import LimitRecord
from tests.chaos.ground import Ground
from tests.chaos.lives import NARROW

SCOPE = f"label:{NARROW}"
RUNS, TASKS = 3, 5
PAUSE = 0.5


class Permits:
    def __init__(self, ground: Ground, scope: str = SCOPE, runs: int = RUNS, tasks: int = TASKS) -> None:
        self._ground, self._scope, self._runs, self._tasks = ground, scope, runs, tasks
        self._limits.change(scope, {"runs": runs, "tasks": tasks}, "chaos")
        self._exceeded = set[str]()
        self.held = 0  # most runs that waited for a permit at once

    @property
    def _limits(self) -> Limits:
        return self._ground.site.control.parts.store.limits  # another control after each start of the stack

    async def watch(self) -> None:
        while True:
            with suppress(LifecycleError):
                self._note(await asyncio.to_thread(self._read))
            await asyncio.sleep(PAUSE)

    def problems(self) -> list[str]:
        """Return violations of the limit, and permits that have leaked. Every run is over."""
        record = self._read()
        if record.runs_begun or record.tasks_in_cluster or record.runs_held:
            self._exceeded.add(f"a permit has leaked: {record}")
        return sorted(self._exceeded)

    def _read(self) -> LimitRecord:
        return next(record for record in self._limits.all() if record.scope == self._scope)

    def _note(self, record: LimitRecord) -> None:
        self.held = max(self.held, record.runs_held)
        if record.runs_begun > self._runs or record.tasks_in_cluster > self._tasks:
            self._exceeded.add(f"a limit was exceeded: {record}")
