"""Build a flow's definition from a workflow, with resolved flags and absolute paths.

Jobs of cascades, whose functions get the context, alone or with an item, are made here as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from crawler_lifecycle.base.limits import DEEPEST, MOST_MEMBERS
from crawler_lifecycle.base.names import ROOT, joined
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.dependencies import Dependency, as_need, names_of
from crawler_lifecycle.flows.authors.functions import check_parameters, reference, refusals_with_job
from crawler_lifecycle.flows.authors.jobs import CrawlJob, StepJob
from crawler_lifecycle.flows.authors.steps import Level, SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.model.definition import (
    CallForm,
    FlowDefinition,
    Fragment,
    GroupDefinition,
    MemberDefinition,
    Need,
)
from crawler_lifecycle.flows.model.values import encode
from crawler_lifecycle.flows.rules.merging import new_ledger, push
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import GroupGrowth
from crawler_lifecycle.model.requests import MOST_TASKS_EVER, refusals_as_bad_input
from crawler_lifecycle.model.states import Report

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_EXAMPLES = {CallForm.ITEM: "function(item, context)", CallForm.CONTEXT: "function(context)"}


def checked_limit(limit: object) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_TASKS_EVER:
        raise BadInput("max_parallel", f"expected a number from 1 to {MOST_TASKS_EVER}, not {limit!r}")
    return limit


def resolved(flags: tuple[bool | None, bool | None], workflow: Level) -> tuple[bool, bool]:
    """Return the flags, with the workflow's own in place of None."""
    ignore_cancelled, ignore_discarded = flags
    return (
        workflow.ignore_cancelled if ignore_cancelled is None else ignore_cancelled,
        workflow.ignore_discarded if ignore_discarded is None else ignore_discarded,
    )


def named_items(name: str, items: object) -> list[tuple[str, Any]]:
    """Return items by name: a dict's items by its keys, a list's items by their numbers."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise BadInput(f"collection {name!r}", f"expected a list or a dict, not {type(items).__name__}")
    if not isinstance(items, Mapping):
        listed = list(islice(items, MOST_MEMBERS + 1))
        if len(listed) > MOST_MEMBERS:
            raise BadInput(f"collection {name!r}", f"has more than {MOST_MEMBERS} items")
        return [(str(number), item) for number, item in enumerate(listed)]
    named = {str(key): item for key, item in items.items()}
    if len(named) < len(items):
        raise BadInput(f"collection {name!r}", "has two keys with the same text")
    return list(named.items())


def definition_of(workflow: Level) -> FlowDefinition:
    """Return the whole graph. Paths are absolute, flags are resolved, and values are encoded."""
    with refusals_as_bad_input():
        fragment = fragment_of(workflow)
        return FlowDefinition(
            id=workflow.id,
            name=workflow.name,
            family=workflow.family,
            ignore_cancelled=workflow.ignore_cancelled,
            ignore_discarded=workflow.ignore_discarded,
            context=None if workflow.context is None else encoded_context(workflow.context),
            max_parallel=workflow.max_parallel,
            groups=fragment.groups,
            members=fragment.members,
        )


def fragment_of(workflow: Level) -> Fragment:
    """Return the groups and members in their order."""
    collected = _Collected()
    collected.add(workflow, ROOT, {}, None, 0)
    return Fragment(groups=tuple(collected.groups), members=tuple(collected.members))


def check(workflow: Level) -> None:
    """Raise BadInput if the workflow, pushed as a new flow, would be refused."""
    check_definition(definition_of(workflow))


def check_definition(definition: FlowDefinition) -> None:
    push(new_ledger(definition), definition, _ANY_TIME)


class _Collected:
    """Groups and members in a workflow and its sub-workflows."""

    def __init__(self) -> None:
        self.groups: list[GroupDefinition] = []
        self.members: list[MemberDefinition] = []

    def add(self, workflow: Level, base: str, around: Mapping[str, Any], report: Report | None, level: int) -> None:
        """Collect a level. `around`, `report`: the contexts and the report above the level."""
        if level > DEEPEST:
            raise BadInput("sub-workflows", f"are nested more than {DEEPEST} deep")
        context, report = {**around, **(workflow.context or {})}, workflow.report or report
        for name in workflow.parts.keys() & context.keys():
            raise BadInput("context", f"the key {name!r} is the name of a job")
        for part in workflow.parts.values():
            if isinstance(part, WorkflowStep):
                _check_required(part, context)
                self.members.append(_member(part, workflow, base, report))
                continue
            if part.grafter is not None:
                self.members.append(_member(part.grafter, workflow, base, report))
            self.groups.append(_group(part, base))
            if part.growth is not GroupGrowth.TASKS:  # jobs for tasks come from the crawl, not from authors
                self.add(part.workflow, joined(base, part.name), context, report, level + 1)


def encoded_context(context: Mapping[str, Any]) -> dict[str, Any]:
    return {key: encode(f"context {key!r}", value) for key, value in context.items()}


def paths_of(workflow: Level, base: str = ROOT) -> Iterator[tuple[str, WorkflowStep]]:
    """Yield all jobs with their paths, in their order."""
    for part in workflow.parts.values():
        step = part if isinstance(part, WorkflowStep) else part.grafter
        if step is not None:
            yield joined(base, step.name), step
        if isinstance(part, SubWorkflow):
            yield from paths_of(part.workflow, joined(base, part.name))


def cascade_job(name: str, function: Any) -> StepJob:
    """Return the job for a function with the context. Items with a function make a single job with all items."""
    if isinstance(function, tuple):
        items, item_function = _pair(name, function)
        return _step(name, item_function, CallForm.ITEM).with_arguments(items)
    return _step(name, function, CallForm.CONTEXT)


def item_jobs(name: str, pair: tuple[Any, Callable[..., Any]]) -> list[tuple[str, StepJob]]:
    """Return a job for every item, by name."""
    items, function = _pair(name, pair)
    job = _step(name, function, CallForm.ITEM)
    return [(key, job.with_arguments(item)) for key, item in named_items(name, items)]


def task_job(name: str, function: Any) -> StepJob:
    """Return the job for a crawl's tasks."""
    return _step(name, function, CallForm.ITEM)


def _member(step: WorkflowStep, workflow: Level, base: str, report: Report | None) -> MemberDefinition:
    ignore_cancelled, ignore_discarded = resolved((step.ignore_cancelled, step.ignore_discarded), workflow)
    job = step.job.reporting(report) if isinstance(step.job, CrawlJob) else step.job
    return MemberDefinition(
        path=joined(base, step.name),
        work=job.work,
        needs=_needs(step.needs, base),
        ignore_cancelled=ignore_cancelled,
        ignore_discarded=ignore_discarded,
        retry=job.retry,
        priority=job.priority,
        start_at=job.start_at,
        delay_seconds=job.delay_seconds,
    )


def _group(part: SubWorkflow, base: str) -> GroupDefinition:
    grower = part.name if part.growth is GroupGrowth.GRAFT else part.crawl
    return GroupDefinition(
        path=joined(base, part.name),
        needs=() if part.growth is GroupGrowth.GRAFT else _needs(part.needs, base),
        ignore_cancelled=part.workflow.ignore_cancelled,
        ignore_discarded=part.workflow.ignore_discarded,
        context=encoded_context(part.workflow.context or {}),
        max_parallel=part.max_parallel,
        growth=part.growth,
        grower=None if grower is None else joined(base, grower),
        template=None if part.template is None else part.template.work,
        template_retry=RetryPolicy() if part.template is None else part.template.retry,
    )


def _needs(needs: Iterable[Dependency], base: str) -> tuple[Need, ...]:
    return tuple(_absolute(as_need(dep), base) for dep in needs)


def _absolute(need: Need, base: str) -> Need:
    return need.model_copy(update={"on": tuple(joined(base, path) for path in need.on)})


def _check_required(step: WorkflowStep, context: Mapping[str, Any]) -> None:
    """Refuse a step if neither a dependency nor the context gives a value for a parameter."""
    if not isinstance(step.job, StepJob):
        return
    missing = [name for name in step.job.required if name not in context and name not in names_of(step.needs)]
    if missing:
        raise BadInput(
            f"job of {step.name!r}",
            f"{step.job.title} needs {missing[0]!r}, which is neither a dependency nor a key of the context",
        )


def _pair(name: str, pair: tuple[Any, ...]) -> tuple[Any, Callable[..., Any]]:
    if len(pair) != 2:
        raise BadInput(f"cascade {name!r}", f"expected (items, function), not {len(pair)} values")
    return pair[0], pair[1]


def _step(name: str, function: Any, form: CallForm) -> StepJob:
    marked = getattr(function, "job", None)
    if isinstance(function, StepJob):
        raise BadInput(f"cascade {name!r}", f"expected a function, not the job {function.title!r}")
    if not callable(function):
        raise BadInput(f"cascade {name!r}", f"expected a function, not {function!r}"[:200])
    with refusals_with_job(name):
        job = marked if isinstance(marked, StepJob) else StepJob(function=reference(function))
        check_parameters(function, 2 if form is CallForm.ITEM else 1, _EXAMPLES[form])
    return replace(job, form=form, arguments=None, required=(), keywords=None)
