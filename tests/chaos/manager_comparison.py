"""The ledger of an ended crawl manager against the world: its hooks' own notes, the runs of its items, and people."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus
from crawler_lifecycle.flows.model.turns import SCHEDULED
from crawler_lifecycle.flows.rules.ends import OUTCOMES, REFUSED, UNKNOWN
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.manager_items import ItemState, Origin
from crawler_lifecycle.model.records import RunFilter, RunRecord
from crawler_lifecycle.model.states import RunStatus
from tests.chaos.managing import REPEATED, hooks_in

OPEN_ITEMS = (ItemState.WAITING, ItemState.RUNNING)
MOST_ITEMS, MOST_RUNS = 1000, 500  # that are read of a manager
ENDS = ("finished", "finished_with_failures")  # close reasons of managers that people let end
BY_PEOPLE = {"drained": "drained", "cancelled": "cancelled"}  # other close reasons, with their lines in the timeline


@dataclass(frozen=True)
class ToldManager:
    """All that is on record of a manager. `hooks`: keys of the jobs whose hooks were called, by their own notes.

    `accepted`: number of answered requests by the event of their lines in the timeline. `failures`: the author's code
    fails in no soak, so each is a divergence.
    """

    state: FlowState
    shops: int
    status: ManagerStatus
    items: Sequence[ItemRecord]
    runs: Sequence[RunRecord]
    hooks: Sequence[str]
    events: Counter[str]
    accepted: Mapping[str, int]
    failures: Sequence[str] = ()


def told_manager(
    control: Control, folder: Path, flow_id: str, shops: int, accepted: Mapping[str, int] = MappingProxyType({})
) -> ToldManager:
    doors = control.parts.store.manager_doors
    uid, row = control.flows.row(flow_id)
    path, lines = hooks_in(folder, uid), control.flows.lines(flow_id)
    (status,) = doors.statuses(flow_id)
    return ToldManager(
        state=row.state,
        shops=shops,
        status=status,
        items=doors.items(flow_id, limit=MOST_ITEMS),
        runs=[
            control.runs.show(run.run_id).run for run in control.runs.select(RunFilter(flow=flow_id), limit=MOST_RUNS)
        ],
        hooks=[line.split()[0] for line in path.read_text().splitlines()] if path.exists() else [],
        events=Counter(line.event for line in lines),
        accepted=accepted,
        failures=[line.message for line in lines if line.event == "failing"],
    )


def compared_manager(seen: ToldManager) -> list[str]:
    return [
        *_of_the_flow(seen),
        *_of_the_end(seen),
        *_of_the_manager(seen),
        *_of_items(seen),
        *_of_runs(seen),
        *_of_hooks(seen),
    ]


def _of_the_flow(seen: ToldManager) -> Iterator[str]:
    """Compare with the requests by people. A request without an answer may be on record as well."""
    for event, number in seen.accepted.items():
        if seen.events[event] < number:
            yield f"{number} requests were accepted, and {seen.events[event]} lines say `{event}`"
    # a drain before the first object starts nothing, so it cancels the manager's step
    stops = seen.events["cancelled"] + (0 if seen.status.incarnation else seen.events["drained"])
    if seen.state is not FlowState.COMPLETED and not (seen.state is FlowState.CANCELLED and stops):
        yield f"its flow is {seen.state}, and {stops} stops are on record"
    added = sum(item.origin is Origin.ADDED for item in seen.items)
    if added != seen.events["items added"]:
        yield f"it has {added} added items, and its timeline {seen.events['items added']}"
    yield from (f"its author's code failed: {failure}" for failure in seen.failures)


def _of_the_end(seen: ToldManager) -> Iterator[str]:
    status = seen.status
    if status.closed_at is None:
        if status.incarnation or seen.state is not FlowState.CANCELLED:  # a stop may come before the first object
            yield f"its flow is {seen.state}, and the manager is not closed"
        return
    if status.close_reason in ENDS:
        bad = status.counts.failed + status.counts.refused
        if (status.close_reason == ENDS[0]) != (bad == 0):
            yield f"its close reason is {status.close_reason}, and {bad} items have failed"
    elif not seen.events[BY_PEOPLE.get(status.close_reason or "", "")]:
        yield f"its close reason is {status.close_reason}, and nobody has asked for its end"
    elif status.close_reason == "cancelled" and seen.state is not FlowState.CANCELLED:
        yield f"its close reason is cancelled, and its flow is {seen.state}"


def _of_the_manager(seen: ToldManager) -> Iterator[str]:
    counts = seen.status.counts
    if counts.running or counts.waiting or counts.delayed or counts.retrying:
        yield f"its flow is {seen.state}, and its items are {counts}"
    states = Counter(item.state for item in seen.items)
    expected = {
        ItemState.COMPLETED: counts.completed,
        ItemState.FAILED: counts.failed,
        ItemState.CANCELLED: counts.cancelled,
        ItemState.REFUSED: counts.refused,
    }
    if differing := {state for state, number in expected.items() if states[state] != number}:
        yield f"its counts of {sorted(differing)} are {counts}, and its items {states}"
    if seen.status.close_reason in ENDS:
        generated = [item for item in seen.items if item.origin is Origin.GENERATOR]
        if (len(generated), counts.repeated) != (seen.shops, REPEATED):
            yield f"it has {len(generated)} shops and {counts.repeated} repeats, and its author gave {seen.shops}"


def _of_items(seen: ToldManager) -> Iterator[str]:
    if [item.number for item in seen.items] != list(range(1, len(seen.items) + 1)):
        yield f"its items have the numbers {[item.number for item in seen.items]}"
    shops = Counter(str(item.override.get("shop", item.override.get("spider_args"))) for item in seen.items)
    if twice := [shop for shop, count in shops.items() if count > 1]:
        yield f"shops are on record twice: {twice}"
    if still_open := [item.number for item in seen.items if item.state in OPEN_ITEMS]:
        yield f"it has ended, and these items have not: {still_open}"


def _of_runs(seen: ToldManager) -> Iterator[str]:
    by_item: dict[str, list[RunRecord]] = defaultdict(list)
    for run in seen.runs:
        if run.flow is not None:
            by_item[run.flow.path.rpartition("/")[2]].append(run)
        if not run.status.is_over:
            yield f"run {run.run_id} is {run.status}, and its flow has ended"
    for item in seen.items:
        runs = sorted(by_item.pop(str(item.number), []), key=lambda run: run.flow.attempt if run.flow else 0)
        attempts = [run.flow.attempt for run in runs if run.flow]
        last = item.attempt - _is_without_run(item)
        if attempts != list(range(1, last + 1)):
            yield f"item {item.number} is at attempt {item.attempt}, and has runs for {attempts}"
        elif item.state is not _state_after(runs, item.state):
            yield f"item {item.number} is {item.state}, and its last run is {runs[-1].status}"
    if by_item:
        yield f"runs of no item: {sorted(by_item)}"


def _is_without_run(item: ItemRecord) -> bool:
    """Return whether the last attempt was refused before it made a run: its outcome may be its workflow's end."""
    return item.outcome == REFUSED or (
        item.state is ItemState.REFUSED and item.outcome in {*OUTCOMES.values(), UNKNOWN}
    )


def _state_after(runs: Sequence[RunRecord], state: ItemState) -> ItemState:
    """Return the state that the last run gives to an item; a cancelled item keeps its state."""
    if not runs or state not in (ItemState.COMPLETED, ItemState.FAILED):
        return state
    return ItemState.COMPLETED if runs[-1].status is RunStatus.COMPLETED else ItemState.FAILED


def _of_hooks(seen: ToldManager) -> Iterator[str]:
    """Every end has one reaction on record, however often its hook was called."""
    keys = {run.workflow_id for run in seen.runs}
    if unknown := set(seen.hooks) - keys:
        yield f"hooks were called for jobs without a run: {sorted(unknown)}"
    if missing := keys - set(seen.hooks):
        yield f"no hook was called for {sorted(missing)}"
    for name, what in (("hooks", "reactions"), (SCHEDULED, "starts")):
        if (number := seen.status.stats.get(name, 0)) != len(keys):
            yield f"{number:.0f} {what} are on record for {len(keys)} jobs"
