"""Rules for admitting child tasks: how many the dispatcher may deploy now, by run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawler_lifecycle.domain.reasons import INSTALLATION_LIMIT, RUN_LIMIT


@dataclass(frozen=True, slots=True)
class Demand:
    """A run with waiting tasks; `in_cluster` tasks have a job already."""

    run_id: int
    waiting: int
    in_cluster: int
    most: int | None  # the run's own limit of tasks with a job

    @property
    def room(self) -> int:
        return self.waiting if self.most is None else max(0, min(self.waiting, self.most - self.in_cluster))


def admitted(demands: Sequence[Demand], room: int) -> dict[int, int]:
    """Return the number of tasks to deploy, by run. Runs share the room in turns: a big run starves no small run."""
    granted = dict.fromkeys((demand.run_id for demand in demands), 0)
    wanting = {demand.run_id: demand.room for demand in demands if demand.room}
    while room > 0 and wanting:
        turn = max(1, room // len(wanting))
        for run_id in list(wanting):
            share = min(turn, wanting[run_id], room)
            granted[run_id] += share
            wanting[run_id] -= share
            room -= share
            if not wanting[run_id]:
                del wanting[run_id]
    return granted


def causes(demands: Sequence[Demand], granted: Mapping[int, int]) -> dict[int, str]:
    """Return why tasks stay queued, for every run with such tasks."""
    return {
        demand.run_id: RUN_LIMIT if granted[demand.run_id] == demand.room else INSTALLATION_LIMIT
        for demand in demands
        if granted[demand.run_id] < demand.waiting
    }
