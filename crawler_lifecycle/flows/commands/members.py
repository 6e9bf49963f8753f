"""Members of flows as records for people."""

from collections.abc import Collection, Iterable
from operator import attrgetter

from crawler_lifecycle.flows.model.answers import FlowSummary, GroupRecord, MemberRecord
from crawler_lifecycle.flows.model.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.model.manager_records import ItemSums
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.model.work import CrawlWork, StepWork, Work
from crawler_lifecycle.flows.ports.records import FlowRecord, KeptFlow, Part
from crawler_lifecycle.flows.rules.explanation import cause_alone, needs_of, waiting_for_supervisor
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow
from crawler_lifecycle.flows.rules.selecting import selected
from crawler_lifecycle.flows.rules.words import NO_SUPERVISOR
from crawler_lifecycle.model.flow_states import MemberState

MANAGER = "manager"  # kind for a step with a crawl manager


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
        run_id=flow.attempts.get(row.number),
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
