"""How long does the database stay wrong about a run, once nothing is broken any more?

It is wrong from the moment in which a job has ended, by the record that the cluster keeps of it, until the task's row
says so, and the run's as well after the last of them. Of the times in which that met with a fault, the part counts that
comes after the last fault that had ended by then. Seen once a second.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.records import RunFilter, RunSummary
from crawler_lifecycle.model.states import ListedStatus, RunStatus
from tests.chaos.ground import Ground
from tests.chaos.people import People
from tests.chaos.timeline import Passed

PAUSE = 1.0
OPEN = tuple(ListedStatus(status) for status in RunStatus if not status.is_over)
Span = tuple[float, float]


@dataclass
class Healing:
    ground: Ground
    people: People
    wrong: list[tuple[int, Span]] = field(default_factory=list)  # by run
    _since: dict[int, float] = field(default_factory=dict)

    async def watch(self) -> None:
        while True:
            with suppress(LifecycleError):
                await asyncio.to_thread(self._look)
            await asyncio.sleep(PAUSE)

    def _look(self) -> None:
        control, jobs = self.ground.site.control, self.ground.state / "cluster" / "jobs"
        found = {run.run_id: run for run in control.runs.select(RunFilter(listed=OPEN), limit=1000)}
        now, runs = time.time(), dict(self.people.runs)
        ends = {run_id: self._ends(jobs / run.run_uid, run_id) for run_id, run in runs.items() if run_id in found}
        if not jobs.is_dir():
            return  # away: nothing can be said
        for run_id in ends.keys() | self._since.keys():
            self._compare(run_id, ends.get(run_id, []), found.get(run_id), now)

    def _ends(self, folder: Path, run_id: int) -> list[float]:
        """Of the jobs since the run was reopened, if it was."""
        since = self.people.reopened_at.get(run_id, 0.0)
        found = [_ended_at(path) for path in folder.glob("*/exit.json")]
        return sorted(at for at in found if at > since)

    def _compare(self, run_id: int, ended: Sequence[float], run: RunSummary | None, now: float) -> None:
        since = _wrong_since(ended, run)
        if since is not None:
            self._since.setdefault(run_id, since)
        elif run_id in self._since:
            self.wrong.append((run_id, (self._since.pop(run_id), now)))

    def times(self, faults: Iterable[Passed]) -> list[tuple[float, int]]:
        """Seconds, and the run; the shortest first."""
        spans = [(each.began, each.ended or time.time()) for each in faults]
        found = ((healed(wrong, spans), run_id) for run_id, wrong in self.wrong)
        return sorted((seconds, run_id) for seconds, run_id in found if seconds is not None)


def healed(wrong: Span, faults: Sequence[Span]) -> float | None:
    """Seconds; None if no fault was in its way."""
    began, right = wrong
    if not any(fault_began < right and fault_ended > began for fault_began, fault_ended in faults):
        return None
    last = max((ended for _, ended in faults if ended <= right), default=began)
    return right - max(began, last)


def _wrong_since(ended: Sequence[float], run: RunSummary | None) -> float | None:
    if run is None or not ended:
        return None  # over, or not known to have ended
    known = sum(count for status, count in run.tasks.items() if status.is_over)
    if len(ended) > known:
        return ended[known]
    return ended[-1] if known == sum(run.tasks.values()) else None


def _ended_at(record: Path) -> float:
    at: float = json.loads(record.read_bytes())["at"]
    return at
