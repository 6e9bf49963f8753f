"""The plan for a pass of the dispatcher: how many tasks of each run are deployed, and what holds the others.

Higher priorities come first. Within a priority the next place goes to the share with the fewest tasks for its weight,
and in the share to the run with the fewest tasks: a big run starves no small run, and a new run comes before the
further tasks of the runs that have begun. The tasks of a run with two labels with weights count for both labels.

A run that asks for its permit itself gets the same answer as in a pass: `obstacle_in_turn` plans the pass.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from crawler_lifecycle.limits.rules.open_runs import OpenRun, Use
from crawler_lifecycle.limits.rules.rooms import OTHERS_FIRST, Hold, Rooms
from crawler_lifecycle.model.limits import INSTALLATION, ScopeLimits, in_words

Line = list[tuple[int, int, OpenRun]]  # a heap of runs: those with the fewest tasks first, then the oldest


@dataclass
class AdmissionPlan:
    granted: dict[int, int] = field(default_factory=dict)  # tasks to deploy, by RunID
    holds: dict[int, Hold] = field(default_factory=dict)  # by RunID
    undecided: set[int] = field(default_factory=set)  # runs that the pass has not reached


def plan(
    runs: Sequence[OpenRun], limits: Mapping[str, ScopeLimits], most: int, used: Mapping[str, Use]
) -> AdmissionPlan:
    """Return the plan for at most `most` tasks. `runs` have tasks to deploy; `used` is the use by all open runs."""
    return _Planning(runs, limits, most, used).finish()


def obstacle_in_turn(
    run: OpenRun, runs: Sequence[OpenRun], limits: Mapping[str, ScopeLimits], used: Mapping[str, Use]
) -> Hold | None:
    """Return what holds the main task of a run that asks for its permit; None if the run's turn has come.

    `runs` and `used` are as in `plan`. The runs before it in the line have their turns first, and keep their places:
    otherwise new runs overtake a run with two limited labels again and again.
    """
    if hold := Rooms(limits, used).obstacle(run):
        return hold
    others = [other for other in runs if other.run_id != run.run_id]
    new = _Planning([*others, replace(run, is_deployable=True)], limits, sys.maxsize, used, run.run_id).finish()
    hold = new.holds.get(run.run_id)
    return hold and Hold(hold.cause, hold.scope, OTHERS_FIRST.format(in_words(hold.scope or INSTALLATION)))


class _Planning:
    """A plan while it is made. With `asking` (a RunID) the plan ends as soon as this run is decided."""

    def __init__(
        self,
        runs: Sequence[OpenRun],
        limits: Mapping[str, ScopeLimits],
        most: int,
        used: Mapping[str, Use],
        asking: int | None = None,
    ) -> None:
        self.plan = AdmissionPlan()
        self._runs = runs
        self._asking = asking
        self._rooms = Rooms(limits, used)
        self._limits = limits
        self._left = most
        weighted = {scope: used[scope].tasks for scope in used if (own := limits.get(scope)) and own.weight}
        rest = used[INSTALLATION].tasks - sum(weighted.values()) if INSTALLATION in used else 0
        self._tasks_of_share = defaultdict[str, int](int, weighted | {"": max(0, rest)})

    def finish(self) -> AdmissionPlan:
        """Decide about all runs that wait, and return the plan."""
        waiting = [run for run in self._runs if run.is_deployable and run.is_wanted and run.has_ready_task]
        for priority in sorted({run.priority for run in waiting}, reverse=True):
            self._serve([run for run in waiting if run.priority == priority])
        return self.plan

    def _serve(self, runs: Sequence[OpenRun]) -> None:
        """Decide about runs with the same priority, place by place."""
        lines = defaultdict[str, Line](list)
        for run in runs:
            lines[run.share].append((run.in_cluster, run.run_id, run))
        for line in lines.values():
            heapify(line)
        shares = [(self._use(share), line[0][1], share) for share, line in lines.items()]
        heapify(shares)
        while shares and not self._has_answer():
            share = heappop(shares)[-1]
            line = lines[share]
            later = self._decide(heappop(line)[-1])
            if later and later.has_ready_task:
                heappush(line, (later.in_cluster, later.run_id, later))
            if line:
                heappush(shares, (self._use(share), line[0][1], share))

    def _has_answer(self) -> bool:
        return self._asking in self.plan.granted or self._asking in self.plan.holds

    def _decide(self, run: OpenRun) -> OpenRun | None:
        """Grant the run's next task if the limits allow it. Return the run with the job; None without a grant."""
        if not self._left:
            self.plan.undecided.add(run.run_id)
            return None
        if hold := self._rooms.obstacle(run):
            self._rooms.keep_places(run, hold)
            self.plan.holds[run.run_id] = hold
            return None
        self.plan.granted[run.run_id] = self.plan.granted.get(run.run_id, 0) + 1
        self._tasks_of_share[run.share] += 1
        self._left -= 1
        return self._rooms.deploy(run)

    def _use(self, share: str) -> float:
        """Return the share's tasks in the cluster for each unit of its weight."""
        limits = self._limits.get(share)
        return self._tasks_of_share[share] / (limits.weight if limits and limits.weight else 1)
