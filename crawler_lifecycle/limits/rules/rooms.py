"""Room under the limits: whether a run's next task may be deployed, and otherwise the scope that holds the run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.limits.rules.open_runs import OpenRun, Use
from crawler_lifecycle.model.limits import INSTALLATION, ScopeLimits, in_words
from crawler_lifecycle.model.reasons import ADMISSION, PAUSED, RUN_LIMIT

OTHERS_FIRST = "other runs are ahead of this run in the line for {}"


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
