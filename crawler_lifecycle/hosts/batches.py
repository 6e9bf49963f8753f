"""Batches: lets the claimed attempts of an activity run, each in a slot."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawler_lifecycle.hosts.attempts import Attempts, Suspects
from crawler_lifecycle.hosts.calling import Function
from crawler_lifecycle.hosts.claiming import Claiming
from crawler_lifecycle.hosts.execution import NOT_ENDED, Execution, Outcome
from crawler_lifecycle.hosts.tasks import Tasks
from crawler_lifecycle.hosts.under_way import UnderWay

logger = logging.getLogger(__name__)


@dataclass
class Batches:
    attempts: Attempts
    under_way: UnderWay
    claiming: Claiming
    tasks: Tasks
    is_closed: bool = False  # whether no further function begins, since the host drains

    async def run(self, executions: Sequence[Execution], functions: Mapping[int, Function]) -> None:
        """Run claimed attempts in parallel, as slots are free. The first slot is taken already.

        Attempts with deaths run in sequence, after the attempts without deaths and in a process apart: so a deadly
        function takes no further attempt with it.
        """
        runs: list[asyncio.Task[None]] = []
        suspects = Suspects(self.attempts.functions)
        for place, execution in enumerate(sorted(executions, key=lambda execution: bool(execution.step.deaths))):
            if execution.step.deaths and runs:
                await asyncio.wait(runs)
            if place > 0:
                await execution.slots.take()
            function = functions[execution.step.start.number]
            if execution.is_manager and self.attempts.managers is not None:
                work = self.attempts.run_manager(execution, self.attempts.managers)
                runs.append(self.tasks.spawn(self._execute(execution, work)))
            elif execution.step.deaths:
                await self._execute(execution, self.attempts.run_suspect(execution, function, suspects))
            else:
                runs.append(self.tasks.spawn(self._execute(execution, self.attempts.run(execution, function))))
        suspects.close()

    async def _execute(self, execution: Execution, work: Coroutine[Any, Any, Outcome]) -> None:
        """Run the attempt to its end, and report its outcome."""
        outcome: Outcome | Exception = NOT_ENDED
        try:
            if not self.is_closed and not execution.is_gone:
                outcome = await work
        except Exception as error:  # such as no memory for a thread; another host may have more
            logger.exception("%s of flow %s: the host failed", execution.step.path, execution.step.flow_id)
            outcome = error
            await self.claiming.release([execution.key])
        finally:
            work.close()
            execution.give_slot_back()
        self.under_way.settle(execution.key, outcome)
