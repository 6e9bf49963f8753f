"""Members of flows as records for people, and explanations for flows and members.

An explanation continues from a crawl to its run, and to what a manager waits for.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from crawler_lifecycle.base.names import ROOT, SEPARATOR
from crawler_lifecycle.flows.model.definition import CrawlWork, GroupDefinition, MemberDefinition, StepWork, Work
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ItemSums, ManagerStatus
from crawler_lifecycle.flows.model.records import FlowStatus, FlowSummary, GroupRecord, MemberRecord, Why
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.ports.records import FlowRecord, KeptFlow, Part
from crawler_lifecycle.flows.rules import words
from crawler_lifecycle.flows.rules.explanation import cause_alone, needs_of, overview, waiting_for_supervisor, why
from crawler_lifecycle.flows.rules.interventions import numbers_by_path, selected
from crawler_lifecycle.flows.rules.managers import job_under_way, manager_explained
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow
from crawler_lifecycle.flows.rules.summary import status
from crawler_lifecycle.flows.rules.words import NO_SUPERVISOR
from crawler_lifecycle.model.flow_states import FlowIntent, MemberState
from crawler_lifecycle.model.records import RunSummary
from crawler_lifecycle.runs.ports import Records

MANAGED = (MemberState.AVAILABLE, MemberState.EXECUTING)  # states in which the manager knows more than its member
MOST_ITEMS = 3  # a manager's jobs under way in an explanation
MANAGER = "manager"  # kind for a step with a crawl manager


def explained_at(ledger: Ledger, path: str, now: datetime) -> Why:
    """Return the explanation for the member, sub-workflow or whole flow. NotFound for an unknown path."""
    planner, members = Planner(ledger), ledger.paths_of_members()
    if path == ROOT:
        return overview(planner, ROOT, ledger.members, status(ledger, now))
    (numbers,) = numbers_by_path(ledger, [path]).values()
    if path in members and len(numbers) == 1:
        return why(planner, members[path])
    return overview(planner, path, numbers, _status_at(status(ledger, now), path))


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
    run_ids = {
        path: flow.last_runs[numbers[path]] for path in _ends(explanation) if numbers.get(path) in flow.last_runs
    }
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


def member_records(
    flow: KeptFlow,
    paths: Iterable[str] | None = None,
    states: Collection[MemberState] | None = None,
    needed: Ledger | None = None,
) -> list[MemberRecord]:
    """Return the members in the order of their insertion. A group's path selects all its members.

    `needed`: the members on which they depend, if the flow has been read in part.
    """
    rows = selected(flow.ledger, paths)
    unsupervised = waiting_for_supervisor(flow.ledger, needed or flow.ledger)
    return [_record(flow, row, unsupervised) for row in rows if states is None or row.state in states]


def part_needed(ledger: Ledger) -> Part | None:
    """Return the part with the members on which suspended members depend; None without such a member."""
    suspended = (row for row in ledger.members.values() if row.state is MemberState.SUSPENDED)
    targets = {target for row in suspended for target in needs_of(ledger, row)}
    if not targets:
        return None
    paths = {ledger.groups[target.number].path for target in targets if target.is_group}
    return Part(numbers={target.number for target in targets if not target.is_group}, paths=paths)


def group_records(flow: KeptFlow) -> tuple[GroupRecord, ...]:
    """Return the groups with dependencies. Grafted members wait for their grafter, which has waited for the rest."""
    groups = sorted(flow.groups.values(), key=attrgetter("path"))
    deps = ((group.path, _deps(group) if group.grower is None else (group.grower,)) for group in groups)
    return tuple(GroupRecord(path=path, deps=paths) for path, paths in deps if paths)


def known_paths(ledger: Ledger, paths: Iterable[str]) -> list[str]:
    """Return the paths with a member or group in the flow."""
    known = ledger.paths_of_members().keys() | ledger.paths_of_groups().keys()
    return [path for path in paths if path in known]


def summary_of(record: FlowRecord, items: ItemSums | None = None) -> FlowSummary:
    return FlowSummary(
        uid=record.uid,
        id=record.id,
        name=record.name,
        family=record.family,
        state=record.state,
        intent=record.intent,
        total=record.total,
        counts={state: record.counts[state] for state in MemberState if record.counts.get(state)},
        created_at=record.created_at,
        updated_at=record.updated_at,
        started_at=record.started_at,
        stopped_at=record.stopped_at,
        created_by=record.created_by,
        waits_for=record.waits_for,
        items=items,
    )


def _status_at(whole: FlowStatus, path: str) -> FlowStatus:
    for name in path.split(SEPARATOR):
        whole = whole.subs[name]
    return whole


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


def _record(flow: KeptFlow, row: MemberRow, unsupervised: Collection[int]) -> MemberRecord:
    definition = flow.definitions[row.number]
    work = definition.work
    return MemberRecord(
        flow_id=flow.ledger.flow.id,
        path=row.path,
        number=row.number,
        kind=MANAGER if isinstance(work, StepWork) and work.is_manager else row.kind,
        title=work.title,
        state=row.state,
        cause=NO_SUPERVISOR if row.number in unsupervised else _cause(flow, row),
        reason=row.reason,
        problem=flow.problems.get(row.number),
        outcome=row.outcome,
        deps=_deps(definition),
        args=decode(flow.arguments[row.number]) if row.number in flow.arguments else _arguments(work),
        labels=work.labels if isinstance(work, CrawlWork) else [],
        queue=work.queue if isinstance(work, StepWork) else None,
        priority=row.priority,
        max_attempts=row.retry.max_attempts,
        generation=row.generation,
        attempt=row.attempt,
        since=row.since,
        due=row.due,
        started_at=row.started_at,
        began_at=row.started_at if row.generation == 1 else flow.restarts.get(row.number),
        ended_at=row.ended_at,
        run_id=flow.last_runs.get(row.number),
    )


def _cause(flow: KeptFlow, row: MemberRow) -> str | None:
    if not flow.has_supervisor and row.state is MemberState.AVAILABLE:
        return NO_SUPERVISOR
    return cause_alone(flow.ledger, row)


def _deps(definition: MemberDefinition | GroupDefinition) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for need in definition.needs for path in need.on))


def _arguments(work: Work) -> object:
    if isinstance(work, CrawlWork):
        return dict(work.request.arguments)
    return decode(work.arguments) if isinstance(work, StepWork) else None
