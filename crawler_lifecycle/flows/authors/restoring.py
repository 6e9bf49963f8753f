"""Restore a workflow from a flow's rows and definitions, with its jobs' states.

A push of the restored workflow has no effect. So an author can fetch a workflow, add jobs, and push the workflow again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import JsonValue

from crawler_lifecycle.base.names import last_name, parent_path
from crawler_lifecycle.flows.authors.dependencies import Dependency, as_dependency
from crawler_lifecycle.flows.authors.jobs import ApprovalJob, CrawlJob, Job, NamedManagerJob, StepJob
from crawler_lifecycle.flows.authors.steps import SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.authors.workflow import Workflow
from crawler_lifecycle.flows.model.definition import (
    CrawlWork,
    GroupDefinition,
    ManagerWork,
    MemberDefinition,
    Need,
    StepWork,
)
from crawler_lifecycle.flows.model.values import decode
from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, Ledger, MemberRow, ancestors, targets_of
from crawler_lifecycle.flows.rules.states import step_state, workflow_state
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import GroupGrowth


@dataclass(frozen=True)
class OnRecord:
    """A stored flow. Definitions are by number."""

    uid: str
    ledger: Ledger
    members: Mapping[int, MemberDefinition]
    groups: Mapping[int, GroupDefinition]
    context: Mapping[str, JsonValue] | None = None  # encoded
    created_at: datetime | None = None
    updated_at: datetime | None = None


def restored(flow: OnRecord) -> Workflow:
    """Return the whole workflow."""
    ledger = flow.ledger
    levels = {number: _level(flow, group) for number, group in ledger.groups.items()}
    grafters = {group.grower for group in ledger.groups.values() if group.growth is GroupGrowth.GRAFT}
    for _, part in sorted(_places(ledger), key=lambda place: place[0]):
        if isinstance(part, GroupRow):
            assert part.parent is not None, "the top level is no part"
            sub = _sub_workflow(flow, part, levels[part.number])
            levels[part.parent].parts[sub.name] = sub
        elif part.number not in grafters:
            step = _step(flow, part)
            levels[part.group].parts[step.name] = step
    return levels[TOP]


def job_id(uid: str, row: MemberRow) -> str | None:
    """Return the job's id, equal to the key in its context; None before its first attempt."""
    return f"{uid}:{row.path}:{row.generation}" if row.attempt else None


def _places(ledger: Ledger) -> Iterator[tuple[tuple[float, int], MemberRow | GroupRow]]:
    """Yield members and groups with their places, as an author builds: a group is where its first member is.

    A group without members of its own is before its first dependent, and before the next group on its level. The jobs
    for a crawl's tasks do not count: they join when the crawl's tasks are known.
    """
    first: dict[int, int] = {}
    dependent: dict[int, int] = {}  # the first member that needs the group
    for row in ledger.members.values():
        yield (row.number, 0), row
        if ledger.groups[row.group].growth is not GroupGrowth.TASKS:
            for group in ancestors(ledger.groups, row.group):
                first[group] = min(row.number, first.get(group, row.number))
        for needed in (target.number for target in targets_of(row.needs) if target.is_group):
            dependent[needed] = min(row.number, dependent.get(needed, row.number))
    following: dict[int, float] = {}  # the next group's place, by the level
    for number in sorted(ledger.groups.keys() - {TOP}, reverse=True):
        group_row = ledger.groups[number]
        parent = group_row.parent or TOP
        member = group_row.grower if group_row.growth is GroupGrowth.GRAFT else first.get(number)
        if member is None:
            place = min(following.get(parent, float("inf")), dependent.get(number, float("inf")) - 0.5)
        else:
            place = member - 0.5
        following[parent] = place
        yield (place, number), group_row


def _level(flow: OnRecord, group: GroupRow) -> Workflow:
    row, is_top = flow.ledger.flow, group.number == TOP
    level = Workflow(
        row.name if is_top else last_name(group.path),
        id=row.id,
        ignore_cancelled=(row if is_top else group).ignore_cancelled,
        ignore_discarded=(row if is_top else group).ignore_discarded,
        max_parallel=row.max_parallel if is_top else None,
    )
    level.path = group.path
    encoded = flow.context if is_top else flow.groups[group.number].context
    level.context = {key: decode(value) for key, value in encoded.items()} if encoded else None
    if is_top:
        has_started = any(member.attempt for member in flow.ledger.members.values())
        level.state = workflow_state(row.state, has_started=has_started)
        level.created_at, level.updated_at = flow.created_at, flow.updated_at
    return level


def _sub_workflow(flow: OnRecord, group: GroupRow, level: Workflow) -> SubWorkflow:
    definition = flow.groups[group.number]
    base = parent_path(group.path)
    is_graft = group.growth is GroupGrowth.GRAFT
    grafter = _step(flow, flow.ledger.members[group.grower]) if is_graft and group.grower is not None else None
    template = definition.template
    return SubWorkflow(
        last_name(group.path),
        level,
        _dependencies(definition.needs, base) if grafter is None else grafter.needs,
        group.max_parallel,
        group.growth,
        grafter=grafter,
        crawl=None if is_graft or definition.grower is None else _relative(definition.grower, base),
        template=None if template is None else _step_job(template, definition.template_retry),
    )


def _step(flow: OnRecord, row: MemberRow) -> WorkflowStep:
    definition = flow.members[row.number]
    is_task = flow.ledger.groups[row.group].growth is GroupGrowth.TASKS
    return WorkflowStep(
        _job(definition),
        last_name(row.path),
        () if is_task else _dependencies(definition.needs, parent_path(row.path)),
        step_state(row.state),
        job_id(flow.uid, row),
        ignore_cancelled=row.ignore_cancelled,
        ignore_discarded=row.ignore_discarded,
    )


def _dependencies(needs: Iterable[Need], base: str) -> list[Dependency]:
    return [
        as_dependency(need.model_copy(update={"on": tuple(_relative(path, base) for path in need.on)}))
        for need in needs
    ]


def _relative(path: str, base: str) -> str:
    return path.removeprefix(f"{base}/") if base else path


def _job(definition: MemberDefinition) -> Job:
    work = definition.work
    job: Job
    if isinstance(work, CrawlWork):
        job = CrawlJob(request=work.request, ready=work.ready, label=work.label)
    elif isinstance(work, StepWork):
        job = _step_job(work, definition.retry)
    elif isinstance(work, ManagerWork):
        job = NamedManagerJob(named=work)
    else:
        job = ApprovalJob(note=work.note, timeout_seconds=work.timeout_seconds)
    return replace(
        job,
        priority=definition.priority,
        retry=definition.retry,
        start_at=definition.start_at,
        delay_seconds=definition.delay_seconds,
    )


def _step_job(work: StepWork, retry: RetryPolicy) -> StepJob:
    return StepJob(
        function=work.function,
        form=work.form,
        arguments=work.arguments,
        queue=work.queue,
        timeout_seconds=work.timeout_seconds,
        isolate=work.isolate,
        tags=work.tags,
        retry=retry,
    )
