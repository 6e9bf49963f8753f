"""Explanation: why an item of a crawl manager is in its state."""

from datetime import datetime

from crawler_lifecycle.contract.flows.records import Why
from crawler_lifecycle.contract.flows.states import FlowIntent
from crawler_lifecycle.contract.managers.items import ItemState
from crawler_lifecycle.contract.managers.records import ItemRecord, ManagerStatus

NO_HOST = "no_host"
PROBLEM = "manager_paused"
PAUSED, DRAINING = "paused", "draining"
PAUSE = "pause"
DELAYED = "delayed"
ROOM = "room"
REASONS = {FlowIntent.PAUSE: f"{PAUSED}: the flow is paused", FlowIntent.DRAIN: f"{DRAINING}: nothing new starts"}


def explained(item: ItemRecord, manager: ManagerStatus, intent: FlowIntent) -> Why:
    """Return the explanation for the item, without its run."""
    cause = _cause_of_wait(item, manager, intent) if item.state is ItemState.WAITING else _cause_of_end(item)
    until = item.due if item.state is ItemState.WAITING else None
    return Why(path=f"item {item.number}", state=item.state, cause=cause, since=_since(item), until=until)


def _cause_of_wait(item: ItemRecord, manager: ManagerStatus, intent: FlowIntent) -> str:
    """Return the reason that holds the item back, the broadest first."""
    if manager.problem is not None:
        return f"{PROBLEM}: {manager.problem.phase} failed, and the manager waits for a resume of the flow"
    if intent in REASONS:
        return REASONS[intent]
    if not manager.incarnation:
        return f"{NO_HOST}: no host has begun the manager {manager.function}"
    if item.due is not None:
        return f"{PAUSE}: after attempt {item.attempt}" + (f" ({item.outcome})" if item.outcome else "")
    if item.is_delayed:
        return f"{DELAYED}: a limit, a breaker or can_schedule_job_with_params did not let the item start"
    return f"{ROOM}: {manager.counts.running} jobs run, and {manager.counts.waiting} items wait for their turn"


def _cause_of_end(item: ItemRecord) -> str | None:
    """Return the reason of the end; for an item under way, its attempt."""
    if item.state is ItemState.RUNNING:
        return f"attempt {item.attempt}"
    return item.problem or item.outcome


def _since(item: ItemRecord) -> datetime | None:
    return item.started_at if item.state is ItemState.RUNNING else item.ended_at
