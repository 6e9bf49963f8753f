"""A flow played in memory: the planner, a ledger, virtual time, and real functions or chosen ends for the jobs."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from crawler_lifecycle.contract.flows.definition import GroupDefinition, MemberDefinition
from crawler_lifecycle.contract.flows.limits import LARGEST_RESULT as LARGEST
from crawler_lifecycle.contract.flows.requests import (
    AppendMembers,
    CancelMembers,
    GraftMembers,
    RetryMembers,
)
from crawler_lifecycle.contract.flows.states import FlowIntent, FlowState, MemberState
from crawler_lifecycle.contract.flows.values import decode, from_text, to_text
from crawler_lifecycle.contract.flows.work import CallForm, StepWork
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.flows import contexts, merging
from crawler_lifecycle.domain.flows.cancelling import Effect, cancel
from crawler_lifecycle.domain.flows.crawls import RunSeen
from crawler_lifecycle.domain.flows.deciding import approve, hold
from crawler_lifecycle.domain.flows.ends import AttemptEnd, EndKind, after_end
from crawler_lifecycle.domain.flows.merging import Merged
from crawler_lifecycle.domain.flows.plan import Plan, Start
from crawler_lifecycle.domain.flows.planner import Planner
from crawler_lifecycle.domain.flows.renewing import retry
from crawler_lifecycle.domain.flows.rows import MemberKind, MemberRow
from crawler_lifecycle.domain.flows.summary import status
from crawler_lifecycle.flows import Cancel, Context, Graft, RunningJob, Workflow
from crawler_lifecycle.flows.functions import required_names

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED, COMPLETED, CANCELLED = EndKind.FAILED, EndKind.COMPLETED, EndKind.CANCELLED


class Play:
    """A flow with its ledger. `order` has the paths of the jobs in the order of their starts."""

    def __init__(self, workflow: Workflow, *, now: datetime = NOW) -> None:
        self.now = now
        self.order: list[str] = []
        self.stopped: list[str] = []
        self.open: list[Start] = []
        self.results: dict[int, Any] = {}
        self.seen: dict[str, Context] = {}  # contexts of the functions that were called
        self.definitions: dict[str, MemberDefinition] = {}
        self.groups: dict[str, GroupDefinition] = {}
        definition = workflow.definition()
        self.ledger = merging.new_ledger(definition)
        self.contexts: dict[int, Any] = {0: _decoded(definition.context or {})}
        self._note(merging.push(self.ledger, definition, self.now))
        self.planner = Planner(self.ledger)

    # doors

    def push(self, workflow: Workflow) -> Merged:
        return self._note(merging.push(self.ledger, workflow.definition(), self.now))

    def append(self, request: AppendMembers) -> Merged:
        return self._note(merging.append(self.ledger, request, self.now))

    def graft(self, request: GraftMembers) -> Merged:
        merged = self._note(merging.graft(self.ledger, request, self.now))
        group = self.ledger.paths_of_groups()[request.grafter]
        self.contexts[group] = _decoded(request.context)
        return merged

    def cancel(self, *names: str, terminate: bool = True) -> int:
        request = CancelMembers(paths=names or None, terminate=terminate)
        return self._do(cancel(self.ledger, request.paths, self.now, terminate=request.terminate))

    def retry(self, *names: str, **options: Any) -> int:
        return self._do(retry(self.ledger, RetryMembers(paths=names or None, **options), self.now))

    def approve(self, name: str, *, approved: bool = True) -> int:
        return self._do(approve(self.ledger, name, approved=approved))

    def hold(self, intent: FlowIntent) -> int:
        return self._do(hold(self.ledger, intent))

    # the engine

    def advance(self) -> Plan:
        """Plan, write the plan, and plan again to see that nothing is left."""
        plan = self.planner.advance(self.now)
        assert not self.is_refused(plan)
        self.write(plan)
        assert self.planner.advance(self.now).is_empty
        return plan

    def write(self, plan: Plan) -> None:
        self.ledger.put((change.row for change in plan.changes), plan.groups)
        if plan.flow_state is not None:
            self.ledger.flow = replace(self.ledger.flow, state=plan.flow_state)
        self.open += plan.starts
        self.order += [self.ledger.members[start.number].path for start in plan.starts]
        self.stopped += [self.ledger.members[number].path for number in plan.stops]

    def is_refused(self, plan: Plan) -> bool:
        """Return whether a door was first, so that no part of the plan may be written."""
        return any(_fence(self.ledger.members[change.row.number]) != _fence(change.was) for change in plan.changes)

    def end(self, path: str, kind: EndKind = COMPLETED, result: Any = None, **details: Any) -> None:
        """End the attempt of a job that is under way."""
        number = self.ledger.paths_of_members()[path]
        row = self.ledger.members[number]
        self.open = [start for start in self.open if start.number != number]
        if row.kind is MemberKind.CRAWL and "attempt" not in details:
            status_of_run = RunStatus.COMPLETED if kind is COMPLETED else RunStatus.FAILED
            reason = "stopped" if kind is CANCELLED else details.pop("reason", None)
            seen = RunSeen(number, row.attempt, status_of_run, row.end + 1, self.now, reason, **details)
            self.planner.observe(seen)
            return
        end = AttemptEnd(number, details.pop("attempt", row.attempt), kind, self.now, **details)
        ended = after_end(row, end)
        self.ledger.put([ended])
        if ended.state is MemberState.COMPLETED and result is not None:
            self.results[number] = from_text(to_text("result", result, LARGEST))
        self.planner.observe(end)

    def run(self, fails: Mapping[str, Sequence[str | None]] | None = None, *, call: bool = False) -> FlowState:
        """Let all jobs end: `fails` has the outcomes of failing attempts by path, and `call` calls the functions."""
        remaining = {path: list(outcomes) for path, outcomes in (fails or {}).items()}
        for _ in range(100_000):
            plan = self.advance()
            if not self.open:
                if plan.wake_at is None:
                    break
                self.now = max(self.now, plan.wake_at)
                continue
            start = self.open[0]
            path = self.ledger.members[start.number].path
            if remaining.get(path):
                self.end(path, FAILED, outcome=remaining[path].pop(0))
            elif call:
                self.call(path)
            else:
                self.end(path)
        return self.ledger.flow.state

    def rebuild(self) -> None:
        """Go on with a planner from the rows."""
        self.planner = Planner(self.ledger)

    def later(self, **time: float) -> None:
        self.now += timedelta(**time)

    # looking

    def row(self, path: str) -> MemberRow:
        return self.ledger.members[self.ledger.paths_of_members()[path]]

    @property
    def states(self) -> dict[str, str]:
        return {row.path: row.state.value for row in self.ledger.members.values()}

    @property
    def status(self) -> Any:
        return status(self.ledger, self.now)

    def recorded(self, path: str) -> Any:
        return self.results.get(self.row(path).number)

    # inside

    def _do(self, effect: Effect) -> int:
        effect.apply(self.ledger)
        if effect.flow is not None:
            self.planner.take_flow(effect.flow)
        self.planner.take(effect.members)
        return effect.count

    def _note(self, merged: Merged) -> Merged:
        is_first = not self.ledger.members
        merged.apply(self.ledger)
        self.definitions |= {row.path: definition for row, definition in merged.members}
        for row, definition in merged.groups:
            self.contexts[row.number] = _decoded(definition.context)
            self.groups[row.path] = definition
        if is_first:
            return merged
        members, groups = [row for row, _ in merged.members], [row for row, _ in merged.groups]
        if merged.removed_members or merged.removed_groups or not self.planner.fits(members, groups):
            self.rebuild()
        else:
            self.planner.take(members, groups)
        if merged.flow is not None:
            self.planner.take_flow(merged.flow)
        return merged

    def call(self, path: str) -> None:
        work = self.definitions[path].work
        if not isinstance(work, StepWork):
            self.end(path)
            return
        row = self.row(path)
        job = RunningJob(
            self.ledger.flow.id,
            path,
            from_arguments(work) if work.form is CallForm.JOB else {},
            row.attempt,
            row.generation,
            is_grafter=any(group.grower == row.number for group in self.ledger.groups.values()),
        )
        result = _called(work, job, self.context_of(row, job))
        if isinstance(result, Workflow):
            result = Workflow.apply_graft(job, result)
        if isinstance(result, Graft):
            self.graft(result.request)
            result = None
        if isinstance(result, Cancel):
            self.end(path, CANCELLED, reason=result.reason)
        else:
            self.end(path, result=result)

    def context_of(self, row: MemberRow, job: RunningJob) -> Context:
        shared = contexts.merged_context(self.contexts, self.ledger, row.group)
        results = contexts.filled(contexts.sources(self.ledger, row), self.results.get)
        values = {**shared, **results}
        return Context({name: _constant(value) for name, value in values.items()}, job)


@dataclass(frozen=True)
class _Value:
    value: Any

    def __call__(self) -> Any:
        return self.value


def _constant(value: Any) -> _Value:
    return _Value(value)


def from_arguments(work: StepWork) -> Any:
    return from_text(to_text("arguments", _decoded(work.arguments), LARGEST))


def _decoded(content: Any) -> Any:
    return decode(content)


def _called(work: StepWork, job: RunningJob, context: Context) -> Any:
    module, name = work.function.split(":")
    function = getattr(import_module(module), name)
    if work.form is CallForm.JOB:
        result = function().process(job)
    elif work.form is CallForm.KEYWORDS:
        result = function(**(from_arguments(work) or {}))
    elif work.form is CallForm.ITEM:
        result = function(from_arguments(work), context)
    elif work.form is CallForm.PARAMETERS:
        result = function(**{name: context[name] for name in required_names(function)})
    else:
        result = function(context)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _fence(row: MemberRow) -> tuple[Any, ...]:
    return row.generation, row.state, row.attempt
