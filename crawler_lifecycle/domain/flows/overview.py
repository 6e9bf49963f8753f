"""Overview: why a flow or sub-workflow is in its state, by the nearest causes among its members."""

from collections.abc import Collection
from datetime import datetime

from crawler_lifecycle.contract.flows.names import ROOT
from crawler_lifecycle.contract.flows.records import FlowStatus, Why
from crawler_lifecycle.contract.flows.states import FlowIntent, MemberState
from crawler_lifecycle.domain.flows import words
from crawler_lifecycle.domain.flows.explanation import MOST_BLOCKERS, explained_beside, explained_without_jobs
from crawler_lifecycle.domain.flows.planner import Planner
from crawler_lifecycle.domain.flows.rows import MemberRow

# failures come first, then members under way, then members that wait
ORDER = (
    MemberState.DISCARDED, MemberState.CANCELLED, MemberState.RETRYABLE, MemberState.EXECUTING, MemberState.AVAILABLE,
    MemberState.SCHEDULED, MemberState.SUSPENDED,
)  # fmt: skip
HOLDS = {FlowIntent.PAUSE: words.PAUSED, FlowIntent.DRAIN: words.DRAINING}


def overview(planner: Planner, path: str, numbers: Collection[int], status: FlowStatus) -> Why:
    """Return the explanation for a sub-workflow with the members, or for the flow if the path is ROOT."""
    rows = [planner.rows[number] for number in numbers]
    if not rows and path != ROOT:
        return _without_jobs(planner, path, status)
    nearest = sorted(filter(_explains, rows), key=lambda row: (ORDER.index(row.state), row.number))
    if path == ROOT:
        nearest = _without_dependents(nearest)
    shown = nearest[:MOST_BLOCKERS]
    return Why(
        path=path or status.id,
        state=status.state,
        cause=_cause(planner, status),
        since=_since(rows, status),
        more=len(nearest) - len(shown),
        because=explained_beside(planner, shown),
    )


def _without_jobs(planner: Planner, path: str, status: FlowStatus) -> Why:
    """Return the explanation for a group without jobs, such as a crawl's tasks before the crawl has tasks."""
    group = next(row.number for row in planner.wiring.groups.values() if row.path == path)
    return Why(
        path=path,
        state=status.state,
        cause="no jobs" if status.state.is_final else "no jobs yet",
        because=explained_without_jobs(planner, group),
    )


def _explains(row: MemberRow) -> bool:
    """Return whether the member is a cause. A member after a failure follows from the failure."""
    return row.state is not MemberState.COMPLETED and not row.is_cancelled_by_dependency


def _without_dependents(rows: list[MemberRow]) -> list[MemberRow]:
    """Return the rows without suspended members, unless only suspended members are open."""
    nearest = [row for row in rows if row.state is not MemberState.SUSPENDED]
    return nearest if any(not row.state.is_final for row in nearest) else rows


def _cause(planner: Planner, status: FlowStatus) -> str:
    counts = ", ".join(f"{status.counts[state]} {state}" for state in MemberState if status.counts.get(state))
    hold = None if status.state.is_final else HOLDS.get(planner.flow.intent)
    return ": ".join(filter(None, (hold, counts or "no jobs")))


def _since(rows: Collection[MemberRow], status: FlowStatus) -> datetime | None:
    """Return the time of the end; without an end, of the first start, or else of the oldest wait."""
    first = min((row.since for row in rows if row.since is not None), default=None)
    return status.stopped_at or status.started_at or first
