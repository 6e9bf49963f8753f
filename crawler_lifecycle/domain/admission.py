"""Rules for admitting tasks: how many tasks the dispatcher may deploy in a pass, by run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawler_lifecycle.domain.reasons import INSTALLATION_LIMIT, RUN_LIMIT


@dataclass(frozen=True, slots=True)
class Demand:
    """A run with tasks waiting for their deployment."""

    run_id: int
    waiting: int  # tasks waiting for their deployment
    in_cluster: int  # tasks with a job already
    max_in_cluster: int | None  # the run's own limit for tasks with a job; None: no limit

    @property
    def allowed(self) -> int:
        """Return how many waiting tasks the run's own limit allows to deploy."""
        if self.max_in_cluster is None:
            return self.waiting
        return max(0, min(self.waiting, self.max_in_cluster - self.in_cluster))


def admitted(demands: Sequence[Demand], room: int) -> dict[int, int]:
    """Return how many tasks to deploy, by run. `room`: how many tasks the installation's limit allows in all.

    The runs share the room in rounds, with equal shares in a round: a big run starves no small run.
    """
    granted = dict.fromkeys((demand.run_id for demand in demands), 0)
    remaining = {demand.run_id: demand.allowed for demand in demands if demand.allowed}
    while room > 0 and remaining:
        equal_share = max(1, room // len(remaining))
        for run_id in list(remaining):
            share = min(equal_share, remaining[run_id], room)
            granted[run_id] += share
            remaining[run_id] -= share
            room -= share
            if not remaining[run_id]:
                del remaining[run_id]
    return granted


def causes(demands: Sequence[Demand], granted: Mapping[int, int]) -> dict[int, str]:
    """Return the limit responsible for queued tasks, for every run with fewer granted than waiting tasks."""
    return {
        demand.run_id: RUN_LIMIT if granted[demand.run_id] == demand.allowed else INSTALLATION_LIMIT
        for demand in demands
        if granted[demand.run_id] < demand.waiting
    }
