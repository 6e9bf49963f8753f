"""Explanations for flows and members, continued from crawls to their runs, and to what managers wait for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from crawler_lifecycle.base.names import ROOT, SEPARATOR
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus
from crawler_lifecycle.flows.model.records import FlowStatus, Why
from crawler_lifecycle.flows.ports.records import KeptFlow
from crawler_lifecycle.flows.rules import words
from crawler_lifecycle.flows.rules.explanation import overview, why
from crawler_lifecycle.flows.rules.manager_explanation import job_under_way, manager_explained
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import Ledger
from crawler_lifecycle.flows.rules.selecting import numbers_by_path
from crawler_lifecycle.flows.rules.summary import status
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from crawler_lifecycle.model.records import RunSummary
from crawler_lifecycle.runs.ports.records import Records

MANAGED = (MemberState.AVAILABLE, MemberState.EXECUTING)  # states in which the manager knows more than its member

MOST_ITEMS = 3  # a manager's jobs under way in an explanation


def explained_at(ledger: Ledger, path: str, now: datetime) -> Why:
    """Return the explanation for the member, sub-workflow or whole flow. NotFound for an unknown path."""
    planner, members = Planner(ledger), ledger.paths_of_members()
    if path == ROOT:
        return overview(planner, ROOT, ledger.members, status(ledger, now))
    (numbers,) = numbers_by_path(ledger, [path]).values()
    if path in members and len(numbers) == 1:
        return why(planner, members[path])
    return overview(planner, path, numbers, _status_at(status(ledger, now), path))


def _status_at(whole: FlowStatus, path: str) -> FlowStatus:
    for name in path.split(SEPARATOR):
        whole = whole.subs[name]
    return whole


def without_supervisor(explanation: Why) -> Why:
    """Return the explanation for a flow that no workflow has ever taken up: its jobs wait for nobody else."""
    if explanation.state == MemberState.AVAILABLE:
        return explanation.model_copy(update={"cause": words.NO_SUPERVISOR})
    because = tuple(map(without_supervisor, explanation.because))
    return explanation.model_copy(update={"because": because})


def with_managers(
    explanation: Why, managers: Mapping[str, ManagerStatus], intent: FlowIntent, jobs: Callable[[str], Sequence[Why]]
) -> Why:
    """Return the explanation with the managers' own waits. `jobs`: reads a manager's jobs under way."""
    if explanation.because:
        because = (with_managers(inner, managers, intent, jobs) for inner in explanation.because)
        return explanation.model_copy(update={"because": tuple(because)})
    manager = managers.get(explanation.path)
    if manager is None:
        return explanation
    is_closed = manager.closed_at is not None
    if explanation.state not in MANAGED and not is_closed:
        return explanation
    shown = () if is_closed else tuple(jobs(manager.path))
    waits = manager_explained(manager, explanation, intent)
    return waits.model_copy(update={"because": shown, "more": max(0, manager.counts.running - len(shown))})


def items_with_runs(items: Sequence[ItemRecord], records: Records) -> list[Why]:
    """Return the explanations for a manager's items under way, with their runs."""
    return [with_run_of_item(job_under_way(item), item, records) for item in items]


def with_runs(explanation: Why, flow: KeptFlow, records: Records) -> Why:
    """Return the explanation, with the runs of the crawls and the cause of each run's wait or end."""
    numbers = flow.ledger.paths_of_members()
    run_ids = {path: flow.attempts[numbers[path]] for path in _ends(explanation) if numbers.get(path) in flow.attempts}
    runs = {run.run_id: run for run in records.summaries(sorted(set(run_ids.values())))} if run_ids else {}
    return _continued(explanation, {path: runs[run_id] for path, run_id in run_ids.items() if run_id in runs})


def with_problems(explanation: Why, flow: KeptFlow) -> Why:
    """Return the explanation, with the sentences about refused crawls."""
    if not flow.problems:
        return explanation
    because = tuple(with_problems(inner, flow) for inner in explanation.because)
    number = flow.ledger.paths_of_members().get(explanation.path)
    problem = None if number is None else flow.problems.get(number)
    cause = f"{explanation.cause}: {problem}" if problem else explanation.cause
    return explanation.model_copy(update={"because": because, "cause": cause})


def with_run_of_item(explanation: Why, item: ItemRecord, records: Records) -> Why:
    """Return the explanation for a manager's item, continued with the run of its last attempt."""
    runs = records.summaries([item.run_id]) if item.run_id is not None else []
    return explanation.model_copy(update={"because": tuple(map(_of_run, runs))})


def _ends(explanation: Why) -> Iterator[str]:
    """Yield the paths at which the explanation ends."""
    if not explanation.because:
        yield explanation.path
    for inner in explanation.because:
        yield from _ends(inner)


def _continued(explanation: Why, runs: Mapping[str, RunSummary]) -> Why:
    if explanation.because:
        because = tuple(_continued(inner, runs) for inner in explanation.because)
    else:
        run = runs.get(explanation.path)
        because = () if run is None else (_of_run(run),)
    return explanation.model_copy(update={"because": because})


def _of_run(run: RunSummary) -> Why:
    if run.status.is_over:
        cause = run.explanation.text if run.explanation else run.reason
    else:
        cause = run.waiting_cause
        if run.waiting_message:
            cause = f"{cause}: {run.waiting_message}"
    since = run.finished_at if run.status.is_over else run.waiting_since
    return Why(path=f"run {run.run_id}", state=run.status, cause=cause, since=since)
