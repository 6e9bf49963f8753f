"""Rules for admission: the room under the limits of a run's scopes, and the plan for a pass of the dispatcher.

A run's permit is its row: a run that was admitted and is not over. So no permit can be lost or counted twice.

A plan says how many tasks of each run are deployed, and what holds the others. Higher priorities come first. Within a
priority the next place goes to the share with the fewest tasks for its weight, and in the share to the run with the
fewest tasks: a big run starves no small run, and a new run comes before the further tasks of the runs that have begun.
The tasks of a run with two labels with weights count for both labels. A run that asks for its permit itself gets the
same answer as in a pass: `obstacle_in_turn` plans the pass.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import heapify, heappop, heappush
from typing import Self

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.model.limits import INSTALLATION, ScopeLimits, in_words
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED, RUN_LIMIT

OTHERS_FIRST = "other runs are ahead of this run in the line for {}"


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a scope's limits by runs."""

    runs: int = 0  # admitted runs
    tasks: int = 0  # tasks that have, or may have, a job
    mains: int = 0  # main tasks of admitted runs that are not over
    children: int = 0  # child tasks that have, or may have, a job
    # main tasks and child tasks of admitted runs, with a place kept for a run whose child tasks all wait
    places: int = 0
    held: int = 0  # runs that wait for their permit because of the scope

    def plus(self, other: "Use", times: int = 1) -> "Use":
        return Use(
            self.runs + times * other.runs,
            self.tasks + times * other.tasks,
            self.mains + times * other.mains,
            self.children + times * other.children,
            self.places + times * other.places,
            self.held + times * other.held,
        )


@dataclass(frozen=True, slots=True)
class OpenRun:
    run_id: int
    scopes: tuple[str, ...]  # the run's scopes that have limits
    priority: int = 0
    share: str = ""  # the label whose weight counts for the run; runs without such a label are a share of their own
    is_admitted: bool = False
    is_wanted: bool = True  # nobody has asked for the run's stop
    is_deployable: bool = True  # the dispatcher deploys the run's tasks: a supervisor lives, and the run waits for us
    held_by: str | None = None  # the scope that holds the run since an earlier pass
    max_parallel: int | None = None  # the run's own limit for tasks in the cluster; None: no limit
    main_is_alive: bool = True
    main_in_cluster: bool = False
    main_is_ready: bool = False  # waits for its deployment
    children_in_cluster: int = 0
    children_queued: int = 0  # with tasks in the pause before a retry
    children_ready: int = 0

    @property
    def in_cluster(self) -> int:
        return self.main_in_cluster + self.children_in_cluster

    @property
    def is_in_line(self) -> bool:
        """Whether the run waits for its permit since an earlier pass."""
        return self.held_by is not None and not self.is_admitted and self.is_wanted

    @property
    def has_ready_task(self) -> bool:
        return self.main_is_ready or self.children_ready > 0

    @property
    def needs_two_places(self) -> bool:
        """Whether the run, once admitted, keeps a place for a child task beside its main task."""
        return self.is_wanted and self.children_queued > 0 and self.max_parallel != 1

    @property
    def use(self) -> Use:
        """The run's use of its scopes' limits."""
        if not self.is_admitted:
            return Use(tasks=self.in_cluster, children=self.children_in_cluster, places=self.in_cluster)
        return Use(
            runs=1,
            tasks=self.in_cluster,
            mains=int(self.main_is_alive),
            children=self.children_in_cluster,
            places=self.main_is_alive + max(self.children_in_cluster, int(self.needs_two_places)),
        )

    @property
    def has_all_its_jobs(self) -> bool:
        """Whether the run's own limit allows no further job; a main task between two attempts keeps its place."""
        if self.max_parallel is None:
            return False
        with_main = self.in_cluster if self.main_is_ready else self.main_is_alive + self.children_in_cluster
        return with_main >= self.max_parallel

    def with_next_job(self) -> Self:
        """Return the run after the deployment of its next task: the main task comes before the child tasks."""
        if self.main_is_ready:
            return replace(self, is_admitted=True, main_is_ready=False, main_in_cluster=True)
        return replace(
            self,
            is_admitted=True,
            children_ready=self.children_ready - 1,
            children_queued=self.children_queued - 1,
            children_in_cluster=self.children_in_cluster + 1,
        )


def total_use(runs: Iterable[OpenRun]) -> dict[str, Use]:
    """Return the runs' use by scope."""
    used = defaultdict[str, Use](Use)
    for run in runs:
        for scope in run.scopes:
            used[scope] = used[scope].plus(run.use)
        if run.held_by is not None and run.is_in_line:
            used[run.held_by] = used[run.held_by].plus(Use(held=1))
    return used


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a run's next task is not deployed now."""

    cause: str
    scope: str | None  # None: the run's own limit
    message: str


class Rooms:
    """The limits of all scopes, and what the open runs use of the limits."""

    def __init__(self, limits: Mapping[str, ScopeLimits], used: Mapping[str, Use]) -> None:
        self._limits = limits
        self.used = defaultdict[str, Use](Use, used)
        self._kept_for_first: dict[str, Use] = {}  # places that the first waiting run of a scope keeps

    def obstacle(self, run: OpenRun) -> Hold | None:
        """Return what holds the run's next task; None if the task may be deployed. A pause comes before every limit."""
        if pause := pause_in(run.scopes, self._limits):
            return pause
        if run.has_all_its_jobs:
            return Hold(RUN_LIMIT, None, "the run has reached its own limit of parallel tasks")
        more = run.with_next_job().use.plus(run.use, -1)
        holds = (self._obstacle_in(scope, more) for scope in run.scopes)
        return next((hold for hold in holds if hold), None)

    def has_room_beside(self, run: OpenRun, waiting: int) -> bool:
        """Return whether the run's next task has room after `waiting` tasks of other runs, in whatever scopes."""
        others = Use(*(waiting for _ in fields(Use)))
        used = {scope: self.used[scope].plus(others) for scope in run.scopes}
        return Rooms(self._limits, used).obstacle(run) is None

    def deploy(self, run: OpenRun) -> OpenRun:
        """Count the run's next task as deployed, and return the run with the job."""
        later = run.with_next_job()
        for scope in run.scopes:
            self.used[scope] = self.used[scope].plus(later.use).plus(run.use, -1)
        return later

    def keep_places(self, run: OpenRun, hold: Hold) -> None:
        """Keep the places of a waiting run, in the scopes where the run is the first to wait.

        Otherwise a run that needs two places could wait forever while places become free one by one; and so could a
        run with two limited labels, if whenever one has a place the other has none. A run that waits for another scope
        keeps no place of the installation: every run needs such a place, and the runs' order is enough.
        """
        if hold.cause != ADMISSION or run.is_admitted:
            return
        more = run.with_next_job().use
        for scope in run.scopes:
            is_needed_by_all = scope == INSTALLATION != hold.scope
            if not is_needed_by_all:
                self._kept_for_first.setdefault(scope, Use(runs=more.runs, places=more.places))

    def _obstacle_in(self, scope: str, more: Use) -> Hold | None:
        """Return what holds a task in the scope, where `more` is what the task adds to the scope's use."""
        limits, used = self._limits[scope], self.used[scope]
        if message := _obstacle(limits, used, more):
            return Hold(ADMISSION, scope, message)
        kept = self._kept_for_first.get(scope)
        if kept and _obstacle(limits, used.plus(kept), more):
            return Hold(ADMISSION, scope, OTHERS_FIRST.format(in_words(scope)))
        return None


def pause_in(scopes: Iterable[str], limits: Mapping[str, ScopeLimits]) -> Hold | None:
    """Return the hold by the first paused scope; None without a pause."""
    for scope in scopes:
        if limits[scope].paused_at is not None:
            return Hold(PAUSED, scope, f"{in_words(scope)} is paused: {limits[scope].paused_reason}")
    return None


def _obstacle(limits: ScopeLimits, used: Use, more: Use) -> str | None:
    """Return why the limits have no room for `more` beside the use; None if they have room."""
    name = in_words(limits.scope)
    if limits.runs is not None and used.runs + more.runs > limits.runs and more.runs:
        return f"{name} is at its limit of {counted(limits.runs, 'run')}"
    if limits.tasks is None or _is_only_child_task(limits.tasks, used, more):
        return None
    if used.tasks + more.tasks > limits.tasks:
        return f"{name} is at its limit of {counted(limits.tasks, 'task')}"
    takes_last_place = more.mains and used.mains + more.mains >= limits.tasks
    if takes_last_place or (more.places and used.places + more.places > limits.tasks):
        return f"the places that {name} has left are kept for child tasks of other runs"
    return None


def _is_only_child_task(most: int, used: Use, more: Use) -> bool:
    """Return whether the task would be the only child task beside main tasks that fill a lowered limit.

    Main jobs wait for their child tasks: without this exception, no run of the scope would ever end.
    """
    return more.children == 1 and used.children == 0 and used.mains >= most


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
