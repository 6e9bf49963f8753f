"""Room under the limits: whether a run's next task may be deployed, and otherwise the scope that holds the run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crawler_lifecycle.contract.limits import INSTALLATION, ScopeLimits, in_words
from crawler_lifecycle.domain.admission.open_runs import OpenRun, Use
from crawler_lifecycle.domain.reasons import ADMISSION, PAUSED, RUN_LIMIT


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a run's next task is not deployed now."""

    cause: str
    scope: str | None  # None: the run's own limit
    message: str


class Rooms:
    """The limits of all scopes, and what the open runs use of the limits."""

    def __init__(self, limits: Mapping[str, ScopeLimits], runs: Iterable[OpenRun]) -> None:
        self._limits = limits
        self.used: dict[str, Use] = defaultdict(Use)
        self._kept_for_first: set[str] = set()  # scopes where the first waiting run keeps its places
        for run in runs:
            for scope in run.scopes:
                self.used[scope] = self.used[scope].plus(run.use)

    def obstacle(self, run: OpenRun) -> Hold | None:
        """Return what holds the run's next task; None if the task may be deployed."""
        if run.has_all_its_jobs:
            return Hold(RUN_LIMIT, None, "the run has as many jobs as its own limit allows")
        more = run.with_next_job().use.plus(run.use, -1)
        holds = (self._obstacle_in(scope, more) for scope in run.scopes)
        return next((hold for hold in holds if hold), None)

    def deploy(self, run: OpenRun) -> OpenRun:
        """Count the run's next task as deployed, and return the run with the job."""
        later = run.with_next_job()
        for scope in run.scopes:
            self.used[scope] = self.used[scope].plus(later.use).plus(run.use, -1)
        return later

    def keep_places(self, run: OpenRun, hold: Hold) -> None:
        """Keep the places of a waiting run, in the scopes where the run is the first to wait.

        Otherwise a run that needs two places could wait for ever while places become free one by one; and so could a
        run with two limited labels, if whenever one has a place the other has none. A run that waits for another scope
        keeps no place of the installation: every run needs such a place, and the runs' order is enough.
        """
        if hold.cause != ADMISSION or run.is_admitted:
            return
        more = run.with_next_job().use
        for scope in run.scopes:
            is_needed_by_all = scope == INSTALLATION != hold.scope
            if not is_needed_by_all and scope not in self._kept_for_first:
                self._kept_for_first.add(scope)
                self.used[scope] = self.used[scope].plus(Use(runs=more.runs, places=more.places))

    def _obstacle_in(self, scope: str, more: Use) -> Hold | None:
        """Return what holds a task in the scope, where `more` is what the task adds to the scope's use."""
        limits, used, name = self._limits[scope], self.used[scope], in_words(scope)
        if limits.paused_at is not None:
            return Hold(PAUSED, scope, f"{name} is paused: {limits.paused_reason}")
        if limits.runs is not None and used.runs + more.runs > limits.runs and more.runs:
            return Hold(ADMISSION, scope, f"{name} has as many runs as its limit allows")
        if limits.tasks is None or _is_only_child_task(limits.tasks, used, more):
            return None
        if used.tasks + more.tasks > limits.tasks:
            return Hold(ADMISSION, scope, f"{name} has as many tasks in the cluster as its limit allows")
        takes_last_place = more.mains and used.mains + more.mains >= limits.tasks
        if takes_last_place or (more.places and used.places + more.places > limits.tasks):
            return Hold(ADMISSION, scope, f"the places that {name} has left are kept for child tasks of other runs")
        return None


def _is_only_child_task(most: int, used: Use, more: Use) -> bool:
    """Return whether the task would be the only child task beside main tasks that fill a lowered limit.

    Main jobs wait for their child tasks: without this exception, no run of the scope would ever end.
    """
    return more.children == 1 and used.children == 0 and used.mains >= most


def comes_before(run: OpenRun, other: OpenRun) -> bool:
    """Return whether the run is before the other run in the line: by its priority, then by its age."""
    return (-run.priority, run.run_id) < (-other.priority, other.run_id)
