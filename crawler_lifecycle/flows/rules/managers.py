"""Why a crawl manager, or its item, is in its state.

A cause is a stable word, a colon, and a sentence for people.
"""

from datetime import datetime

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.words import HOST, NO_HOST, SILENT_HOST
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from crawler_lifecycle.model.manager_items import ItemState

# causes for waiting
PROBLEM = "manager_paused"  # the author's code failed
PAUSED, DRAINING = "paused", "draining"  # people hold the flow
ITEM_PAUSE = "pause"  # before an item's next attempt
DELAYED = "delayed"  # the manager's own code or limits hold items back
ROOM = "room"  # as many jobs are under way as the manager allows
TURN = "turn"  # the manager has not chosen an item yet
ENDS = "ends"  # jobs are under way, and no item waits for room
GENERATOR = "generator"  # no item is open, and the generator may yield more
REACTION = "reaction"  # by the manager, to a job's end
CLOSING, CLOSED = "closing", "closed"
NO_REACTION = "finished; the manager has not processed the end yet"
MOST_KEYS = 3  # breakers' keys in an explanation
CAUSES_BY_INTENT = {
    FlowIntent.PAUSE: f"{PAUSED}: the flow is paused",
    FlowIntent.DRAIN: f"{DRAINING}: nothing new starts",
}


def explained(item: ItemRecord, manager: ManagerStatus, intent: FlowIntent) -> Why:
    """Return the explanation for the item, without its run."""
    cause = (
        _cause_of_wait(item, manager, intent) if item.state is ItemState.WAITING else _cause_after_start(item, manager)
    )
    until = item.due if item.state is ItemState.WAITING else None
    return Why(path=f"item {item.number}", state=item.state, cause=cause, since=_since(item), until=until)


def job_under_way(item: ItemRecord) -> Why:
    """Return the explanation for an item with an attempt under way, without its run."""
    return Why(path=f"item {item.number}", state=item.state, cause=_cause_after_start(item), since=_since(item))


def manager_explained(manager: ManagerStatus, member: Why, intent: FlowIntent) -> Why:
    """Return the explanation for the manager itself. `member`: the explanation for the manager's member."""
    cause = _cause_of_manager(manager, member, intent)
    return Why(path=manager.path, state=member.state, cause=cause, since=member.since, until=_until(cause, manager))


def without_host(manager: ManagerStatus, cause: str | None = None) -> str:
    """Return the wait for a host. `cause`: the member's own; `--flow ID` at its end names a flow with own hosts."""
    _, own, flow = (cause or "").partition(" --flow ")
    command = f"crawlctl host FILE --flow {flow}" if own else "crawlctl up --flows FILE"
    return f"{NO_HOST}: no running host has loaded the manager {manager.function}: start `{command}`"


def _cause_of_manager(manager: ManagerStatus, member: Why, intent: FlowIntent) -> str:
    """Return the manager's present wait, the broadest first."""
    if manager.closed_at is not None:
        return f"{CLOSED}: {manager.close_reason}"
    if manager.problem is not None:
        lines = manager.problem.error.strip().splitlines()
        error = f" ({lines[-1]})" if lines else ""
        return f"{PROBLEM}: {manager.problem.phase} failed{error}, and the manager waits for a resume of the flow"
    if intent in CAUSES_BY_INTENT:
        return CAUSES_BY_INTENT[intent]
    if member.state == MemberState.AVAILABLE:
        return _cause_before_host(manager, member.cause)
    if (member.cause or "").startswith(SILENT_HOST):
        return without_host(manager, member.cause)
    return _cause_by_items(manager) if manager.has_begun else without_host(manager, member.cause)


def _cause_before_host(manager: ManagerStatus, cause: str | None) -> str:
    """Return the member's own cause, such as a limit of the flow, unless only a host is missing."""
    if cause is None or cause.partition(":")[0] in (HOST, NO_HOST):
        return without_host(manager, cause)
    return cause


def _cause_by_items(manager: ManagerStatus) -> str:
    counts = manager.counts
    if counts.waiting or counts.running:
        return _cause_beside_jobs(counts)
    if counts.delayed:
        wait = "waits" if counts.delayed == 1 else "wait"
        return f"{DELAYED}: {_holders(manager)} lets no item start ({counted(counts.delayed, 'item')} {wait})"
    if counts.retrying:
        return f"{ITEM_PAUSE}: {counted(counts.retrying, 'item')} before the next attempt"
    if not manager.is_exhausted:
        read = f"{counted(manager.read, 'set')} read"
        return f"{GENERATOR}: no item is open, and the manager's code has not ended or lets no job start now ({read})"
    return f"{CLOSING}: no item is open"


def _holders(manager: ManagerStatus) -> str:
    """Return what can hold items back. The pauses by breakers are recorded."""
    keys = sorted(manager.held)
    breaker = "a breaker" + (f" (of {', '.join(keys[:MOST_KEYS])}{', …' if keys[MOST_KEYS:] else ''})" if keys else "")
    return f"a limit, {breaker} or can_schedule_job_with_params"


def _until(cause: str, manager: ManagerStatus) -> datetime | None:
    """Return when the wait ends: for a breaker's pause and an item's pause, the only causes with a known end."""
    word = cause.partition(":")[0]
    if word == DELAYED:
        return min(manager.held.values(), default=None)
    return manager.next_attempt_at if word == ITEM_PAUSE else None


def _cause_beside_jobs(counts: Counts) -> str:
    waiting, jobs = counted(counts.waiting, "item"), counted(counts.running, "job")
    if not counts.running:
        return f"{TURN}: {waiting} may start, and the manager has not chosen an item yet"
    if counts.waiting:
        return f"{ROOM}: {jobs} under way, and {waiting} without room beside these jobs"
    held = counts.delayed + counts.retrying
    return f"{ENDS}: {jobs} under way" + (f", and {counted(held, 'item')} held back" if held else "")


def _cause_of_wait(item: ItemRecord, manager: ManagerStatus, intent: FlowIntent) -> str:
    """Return the cause that holds the item back, the broadest first."""
    if manager.problem is not None:
        return f"{PROBLEM}: {manager.problem.phase} failed, and the manager waits for a resume of the flow"
    if intent in CAUSES_BY_INTENT:
        return CAUSES_BY_INTENT[intent]
    if not manager.has_begun:
        return without_host(manager)
    if item.due is not None:
        return f"{ITEM_PAUSE}: after attempt {item.attempt}" + (f" ({item.outcome})" if item.outcome else "")
    if item.is_delayed:
        return f"{DELAYED}: {_holders(manager)} did not let the item start"
    running, waiting = manager.counts.running, manager.counts.waiting
    runs, wait = "runs" if running == 1 else "run", "waits for its turn" if waiting == 1 else "wait for their turn"
    return f"{ROOM}: {counted(running, 'job')} {runs}, and {counted(waiting, 'item')} {wait}"


def _cause_after_start(item: ItemRecord, manager: ManagerStatus | None = None) -> str | None:
    """Return the item's attempt under way, the cause for which its crawl's end waits, or the reason for its end."""
    if item.awaits_reaction:
        failed = manager.problem if manager is not None else None
        hook = f": {failed.phase} failed, and the manager waits for a resume of the flow" if failed is not None else ""
        return f"{REACTION}: {NO_REACTION}{hook}"
    if item.state is ItemState.RUNNING:
        return f"attempt {item.attempt}"
    return item.problem or item.outcome


def _since(item: ItemRecord) -> datetime | None:
    return item.started_at if item.state is ItemState.RUNNING else item.ended_at
