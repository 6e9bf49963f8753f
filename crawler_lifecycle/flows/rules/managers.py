"""Rules for crawl managers: why a manager or an item is in its state, corrections for a retry, and the last output."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import JsonValue

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus, OutputLine
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.words import HOST, NO_HOST, SILENT_HOST
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from crawler_lifecycle.model.manager_items import ItemState, Override
from crawler_lifecycle.model.requests import RunParameters, refusals_as_bad_input

PROBLEM = "manager_paused"
PAUSED, DRAINING = "paused", "draining"
PAUSE = "pause"
DELAYED = "delayed"
MOST_KEYS = 3  # of breakers in an explanation
ROOM = "room"
TURN = "turn"
ENDS = "ends"
GENERATOR = "generator"
REACTION = "reaction"
NO_REACTION = "finished; the manager has not processed the end yet"
CLOSING, CLOSED = "closing", "closed"
CAUSES_BY_INTENT = {
    FlowIntent.PAUSE: f"{PAUSED}: the flow is paused",
    FlowIntent.DRAIN: f"{DRAINING}: nothing new starts",
}
SPIDER, SPIDER_ARGS = "spider", "spider_args"  # the author's words for a crawler, and for a crawl's arguments
MOST_LINES = 200
MOST_CHARACTERS = 20_000  # in all lines
LONGEST_LINE = 1000  # characters


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
    """Return the wait for a host. `cause`: the member's own cause, with the hosts' flow."""
    _, own, flow = (cause or "").partition(" --flow ")
    command = f"crawlctl host FILE --flow {flow}" if own else "crawlctl up --flows FILE"
    return f"{NO_HOST}: no running host has loaded the manager {manager.function}: start `{command}`"


def changed_arguments(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the arguments with other values than before. None: the argument is gone."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return {**{name: value for name, value in after.items() if before.get(name) != value}, **gone}


def corrected(override: Override, arguments: Mapping[str, JsonValue] | None, spider: str | None) -> Override:
    """Return the item's parameters with new arguments over the previous arguments, and with the crawler."""
    former = override.get(SPIDER_ARGS)
    changed: Override = {**override}
    if arguments:
        changed[SPIDER_ARGS] = {**(former if isinstance(former, dict) else {}), **arguments}
    if spider is not None:
        changed[SPIDER] = spider
    return changed


def renewed(
    request: RunParameters, arguments: Mapping[str, JsonValue] | None, spider: str | None = None
) -> RunParameters:
    """Return the item's request with new arguments over the previous arguments, and with the crawler."""
    texts = {name: value if isinstance(value, str) else str(value) for name, value in (arguments or {}).items()}
    with refusals_as_bad_input():
        fields = request.model_dump(exclude_none=True)
        changed = {**fields, "arguments": {**request.arguments, **texts}, "crawler": spider or request.crawler}
        return RunParameters.model_validate(changed)


def last_lines(former: Sequence[OutputLine], new: Sequence[OutputLine]) -> list[OutputLine]:
    """Return the last lines. A new line among the previous lines comes from a repeated call."""
    known = {(line.at, line.text) for line in former}
    lines = [*former, *(line for line in new if (line.at, line.text) not in known)][-MOST_LINES:]
    rest = MOST_CHARACTERS
    for place in range(len(lines) - 1, -1, -1):
        rest -= len(lines[place].text)
        if rest < 0:
            return lines[place + 1 :]
    return lines


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
    return _cause_by_items(manager) if manager.incarnation else without_host(manager, member.cause)


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
        return f"{PAUSE}: {counted(counts.retrying, 'item')} before the next attempt"
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
    """Return the end of the manager's pause."""
    word = cause.partition(":")[0]
    if word == DELAYED:
        return min(manager.held.values(), default=None)
    return manager.next_attempt_at if word == PAUSE else None


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
    if not manager.incarnation:
        return without_host(manager)
    if item.due is not None:
        return f"{PAUSE}: after attempt {item.attempt}" + (f" ({item.outcome})" if item.outcome else "")
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
