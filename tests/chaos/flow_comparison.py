"""The ledger of an ended flow against the world: the functions' own notes and the runs of the flow's crawls."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.flows.model.records import MemberRecord
from crawler_lifecycle.flows.ports.records import AttemptRecord
from crawler_lifecycle.model.flow_states import EndKind, FlowState, MemberState
from crawler_lifecycle.model.records import RunFilter, RunSummary
from crawler_lifecycle.model.states import RunStatus
from tests.chaos.graph import calls_in


@dataclass(frozen=True)
class ToldFlow:
    """All that is on record of a flow. `calls`: path and attempt of each call, as the functions wrote them down."""

    state: FlowState
    items: int
    members: Sequence[MemberRecord]
    attempts: Mapping[str, Sequence[AttemptRecord]]
    results: Mapping[str, Any]
    runs: Sequence[RunSummary]
    events: Counter[str]
    calls: Sequence[tuple[str, int]]


def told_flow(control: Control, folder: Path, flow_id: str, items: int) -> ToldFlow:
    flows = control.flows
    uid, row = flows.row(flow_id)
    members = flows.members(flow_id)
    return ToldFlow(
        state=row.state,
        items=items,
        members=members,
        attempts={member.path: flows.attempts(flow_id, member.path) for member in members},
        results=flows.results(flow_id),
        runs=control.runs.select(RunFilter(flow=flow_id), limit=100),
        events=Counter(line.event for line in flows.lines(flow_id)),
        calls=calls_in(folder, uid),
    )


def compared_flow(seen: ToldFlow) -> list[str]:
    return [*_of_the_flow(seen), *_of_attempts(seen), *_of_runs(seen), *_of_calls(seen), *_of_results(seen)]


def _of_the_flow(seen: ToldFlow) -> Iterator[str]:
    states = {member.state for member in seen.members}
    expected = FlowState.COMPLETED
    if MemberState.DISCARDED in states:
        expected = FlowState.DISCARDED
    elif MemberState.CANCELLED in states:
        expected = FlowState.CANCELLED
    if seen.state is not expected:
        yield f"it is {seen.state}, and its jobs are {sorted(states)}"
    if still_open := [member.path for member in seen.members if not member.state.is_final]:
        yield f"it has ended, and these jobs have not: {still_open}"
    if not seen.events["ended"]:
        yield "its end was never told"


def _of_attempts(seen: ToldFlow) -> Iterator[str]:
    for member in seen.members:
        attempts = seen.attempts[member.path]
        if [record.attempt for record in attempts] != list(range(1, member.attempt + 1)):
            yield f"{member.path} is at attempt {member.attempt}, and has had {[record.attempt for record in attempts]}"
        if claims := [record.attempt for record in attempts if record.ended_at is None]:
            yield f"{member.path} has attempts without an end: {claims}"
        completed = [record for record in attempts if record.kind is EndKind.COMPLETED]
        if member.state is MemberState.COMPLETED and member.kind != "approval" and not completed:
            yield f"{member.path} is completed, and none of its attempts is"


def _of_runs(seen: ToldFlow) -> Iterator[str]:
    of_attempts = Counter((run.flow.path, run.flow.attempt) for run in seen.runs if run.flow)
    if twice := [key for key, count in of_attempts.items() if count > 1]:
        yield f"attempts have several runs: {twice}"
    on_record = {(path, record.attempt): record for path, records in seen.attempts.items() for record in records}
    for run in seen.runs:
        attempt = on_record.get((run.flow.path, run.flow.attempt)) if run.flow else None
        if attempt is None or attempt.run_id != run.run_id:
            yield f"run {run.run_id} is on record as {attempt}"
        elif not run.status.is_over:
            yield f"run {run.run_id} is {run.status}, and its flow has ended"
        elif (attempt.kind is EndKind.COMPLETED) != (run.status is RunStatus.COMPLETED):
            yield f"run {run.run_id} is {run.status}, and its attempt {attempt.kind}"
    crawls = {member.path for member in seen.members if member.kind == "crawl"}
    for key, attempt in on_record.items():
        if key[0] in crawls and attempt.kind is EndKind.COMPLETED and key not in of_attempts:
            yield f"attempt {key} is completed, and has no run"


def _of_calls(seen: ToldFlow) -> Iterator[str]:
    """A function is called once for an attempt, and once more for each death of its process."""
    noted = Counter(seen.calls)
    steps = {member.path for member in seen.members if member.kind == "step"}
    on_record = {(path, record.attempt): record for path in steps for record in seen.attempts[path]}
    if unknown := noted.keys() - on_record.keys():
        yield f"calls of no attempt: {sorted(unknown)}"
    for key, attempt in on_record.items():
        if noted[key] > attempt.deaths + 1:
            yield f"attempt {key} was called {noted[key]} times, with {attempt.deaths} deaths"
        if attempt.kind is EndKind.COMPLETED and not noted[key]:
            yield f"attempt {key} is completed, and its function was never called"


def _of_results(seen: ToldFlow) -> Iterator[str]:
    completed = {member.path for member in seen.members if member.state is MemberState.COMPLETED}
    items = seen.results.get("items") or {}
    expected = {str(number): (number + 1) * 10 for number in range(seen.items) if f"items/{number}" in completed}
    if items != expected:
        yield f"the items' results are {items}, and should be {expected}"
    if "merge" in completed and seen.results.get("merge") != sum(expected.values()):
        yield f"the sum is {seen.results.get('merge')}, and should be {sum(expected.values())}"
