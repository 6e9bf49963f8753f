"""An open run as admission sees the run: its jobs, and the tasks that wait for their deployment."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a scope's limits by runs."""

    runs: int = 0  # admitted runs
    tasks: int = 0  # tasks that have, or may have, a job
    mains: int = 0  # main tasks of admitted runs that are not over
    children: int = 0  # child tasks that have, or may have, a job
    # main tasks and child tasks of admitted runs, with a place kept for a run whose child tasks all wait
    places: int = 0

    def plus(self, other: "Use", times: int = 1) -> "Use":
        return Use(
            self.runs + times * other.runs,
            self.tasks + times * other.tasks,
            self.mains + times * other.mains,
            self.children + times * other.children,
            self.places + times * other.places,
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
    return used
