"""`MemoryFlow`: a flow in memory for authors' tests, by the service's rules, without database, Temporal and cluster."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pydantic import JsonValue

from crawler_lifecycle.base.limits import LARGEST_RESULT
from crawler_lifecycle.base.names import joined
from crawler_lifecycle.flows.authors.workflow import Workflow
from crawler_lifecycle.flows.model.definition import FlowDefinition, GroupDefinition, MemberDefinition
from crawler_lifecycle.flows.model.records import Decision, FlowStatus, Why
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    ChangeFlow,
    GraftMembers,
    HoldFlow,
    RetryMembers,
)
from crawler_lifecycle.flows.model.values import from_text, to_text
from crawler_lifecycle.flows.rules import contexts, merging
from crawler_lifecycle.flows.rules.ends import AttemptEnd, RunSeen, TasksSeen, after_end
from crawler_lifecycle.flows.rules.explanation import why
from crawler_lifecycle.flows.rules.interventions import Effect, approve, cancel, hold, no_job, retry, selected
from crawler_lifecycle.flows.rules.merging import Merged
from crawler_lifecycle.flows.rules.plan import Plan
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.requesting import changed_arguments
from crawler_lifecycle.flows.rules.rows import TOP, MemberRow
from crawler_lifecycle.flows.rules.summary import status
from crawler_lifecycle.model.flow_states import FlowIntent, GroupGrowth, MemberKind, MemberState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryFlow:
    """A flow in memory. `advance` plans. Doors (push, cancel, retry) change the rows as in the service.

    The planner has plans and observations beyond the ledger's rows. So after a door or an end, the planner restores the
    changed rows, as in a supervisor.
    """

    def __init__(self, definition: FlowDefinition, now: datetime = NOW) -> None:
        self.id, self.family = definition.id, definition.family
        self.uid = str(uuid5(NAMESPACE_URL, f"flow:{definition.id}"))
        self.now = now
        self.created_at = self.updated_at = now
        self.definitions: dict[int, MemberDefinition] = {}
        self.approvals: set[int] = set()  # members' numbers
        self.group_definitions: dict[int, GroupDefinition] = {}
        self.group_contexts: dict[int, dict[str, JsonValue]] = {TOP: definition.context or {}}
        self.has_context = definition.context is not None
        self.arguments: dict[int, JsonValue] = {}  # from retries, by member's number
        self.run_ids: dict[int, int] = {}  # of crawls' last attempts, by member's number
        self._results: dict[tuple[int, int], str] = {}  # by member's number and generation
        self.ledger = merging.new_ledger(definition)
        self._store(merging.push(self.ledger, definition, now))
        self.planner = Planner(self.ledger)

    # doors

    def push(self, workflow: Workflow) -> Merged:
        """Update the flow by a push with its id."""
        return self.push_definition(workflow.definition())

    def push_definition(self, definition: FlowDefinition) -> Merged:
        merged = self._merge(merging.push(self.ledger, definition, self.now))
        if definition.context is not None:
            self.group_contexts[TOP], self.has_context = definition.context, True
        return merged

    def append(self, request: AppendMembers) -> Merged:
        return self._merge(merging.append(self.ledger, request, self.now))

    def graft(self, request: GraftMembers) -> Merged:
        merged = self._merge(merging.graft(self.ledger, request, self.now))
        self.group_contexts[self.ledger.paths_of_groups()[request.grafter]] = dict(request.context)
        return merged

    def grow(self, group: int) -> Merged:
        """Add the members for a crawl's tasks."""
        row, definition = self.ledger.groups[group], self.group_definitions[group]
        return self._merge(merging.grow(self.ledger, row, definition, self.now))

    def apply_request(self, request: ChangeFlow) -> int:
        """Take a request; return the number of changed members."""
        match request:
            case CancelMembers():
                return self._apply(cancel(self.ledger, request.paths, self.now, terminate=request.terminate))
            case RetryMembers():
                return self._retry(request)
            case ApproveMember():
                return self._approve(request)
            case HoldFlow():
                return self.hold(FlowIntent(request.hold))

    def cancel(self, *names: str, terminate: bool = True) -> int:
        """Cancel all open members, or the named members; return their number."""
        return self.apply_request(CancelMembers(paths=names or None, terminate=terminate))

    def retry(self, *names: str, **options: Any) -> int:
        """Retry all failed members, or the named members; return their number. Options: as in RetryMembers."""
        return self.apply_request(RetryMembers(paths=names or None, **options))

    def approve(self, name: str, *, approved: bool = True, **record: Any) -> int:
        """Decide about an approval. `record`: an actor and a note."""
        return self.apply_request(ApproveMember(path=name, approved=approved, **record))

    def _retry(self, request: RetryMembers) -> int:
        effect = retry(self.ledger, request, self.now)
        if request.changes_arguments:
            named = {row.number for row in selected(self.ledger, request.paths)}
            changed = [row for row in effect.members if row.number in named]
            self.arguments |= {row.number: self._changed_arguments(row, request) for row in changed}
        return self._apply(effect)

    def _approve(self, request: ApproveMember) -> int:
        count = self._apply(approve(self.ledger, request.path, approved=request.approved))
        if count:
            decision = Decision(approved=request.approved, actor=request.actor, note=request.note, at=self.now)
            self.keep_result(self.row(request.path), decision)
        return count

    def hold(self, intent: FlowIntent) -> int:
        """Pause, drain or resume the flow."""
        return self._apply(hold(self.ledger, intent))

    # plans

    def advance(self) -> Plan:
        """Plan, and write the plan. A second plan without news would be empty."""
        plan = self.planner.advance(self.now)
        self.write(plan)
        return plan

    def write(self, plan: Plan) -> None:
        """Write the plan's rows. The planner has the rows already."""
        self.ledger.put((change.row for change in plan.changes), plan.groups)
        if plan.flow_state is not None:
            self.ledger.flow = replace(self.ledger.flow, state=plan.flow_state)

    def settle(self, end: AttemptEnd, result: str | None = None) -> None:
        """Record an attempt's end, with the result as text."""
        ended = after_end(self.ledger.members[end.number], end)
        self.ledger.put([ended])
        if result is not None and ended.state is MemberState.COMPLETED:
            self._results[ended.number, ended.generation] = result
        self.planner.restore([ended])

    def observe(self, seen: RunSeen | TasksSeen) -> None:
        self.planner.observe(seen)

    def keep_result(self, row: MemberRow, value: object) -> None:
        """Keep a result without a function: a crawl's receipt, or an approval's decision."""
        self._results[row.number, row.generation] = to_text("result", value, LARGEST_RESULT)

    def rebuild(self) -> None:
        """Continue with a planner from the rows, as a new supervisor does."""
        self.planner = Planner(self.ledger)

    def later(self, **time: float) -> None:
        """Let time pass, with a timedelta's arguments."""
        self.now += timedelta(**time)

    # reading

    def row(self, path: str) -> MemberRow:
        number = self.ledger.paths_of_members().get(path)
        if number is None:
            raise no_job(self.ledger, path)
        return self.ledger.members[number]

    @property
    def states(self) -> dict[str, str]:
        """States by path."""
        return {row.path: row.state.value for row in self.ledger.members.values()}

    @property
    def status(self) -> FlowStatus:
        return status(self.ledger, self.now)

    def why(self, path: str) -> Why:
        """Return why a member is in its state."""
        return why(Planner(self.ledger), self.row(path).number)

    def results(self) -> dict[int, Any]:
        """Return the present generation's results by member's number."""
        return {number: from_text(text) for number, text in self.result_texts().items()}

    def result_texts(self) -> dict[int, str]:
        """Return the present generation's results as JSON text."""
        return {
            number: text for (number, generation), text in self._results.items() if self._is_present(number, generation)
        }

    def result_text(self, number: int) -> str | None:
        """Return a completed member's result as JSON text; None without a result."""
        row = self.ledger.members[number]
        return self._results.get((number, row.generation)) if row.state is MemberState.COMPLETED else None

    def recorded(self, path: str) -> Any:
        """Return the result for a member, or a nested dict for a sub-workflow; None without a result."""
        return contexts.recorded(self.ledger, self.results(), [path]).get(path)

    def is_grafter(self, row: MemberRow) -> bool:
        groups = self.ledger.groups.values()
        return any(group.growth is GroupGrowth.GRAFT and group.grower == row.number for group in groups)

    def task_of(self, row: MemberRow) -> tuple[MemberRow, int] | None:
        """Return a member's crawl and task; None for a member without a task."""
        group = self.ledger.groups[row.group]
        if group.growth is not GroupGrowth.TASKS or group.grower is None:
            return None
        return self.ledger.members[group.grower], int(row.path.removeprefix(joined(group.path, "")))

    # inside

    def _changed_arguments(self, row: MemberRow, request: RetryMembers) -> JsonValue:
        work, former = self.definitions[row.number].work, self.arguments.get(row.number)
        return changed_arguments(row.path, work, former, request.arguments or {}, request.removed_arguments)

    def _is_present(self, number: int, generation: int) -> bool:
        row = self.ledger.members.get(number)
        return row is not None and row.generation == generation and row.state is MemberState.COMPLETED

    def _apply(self, effect: Effect) -> int:
        """Write a request's effect, and restore the planner. Return how many members changed."""
        effect.apply(self.ledger)
        if effect.flow is not None:
            self.planner.take_flow(effect.flow)
        self.planner.restore(effect.members)
        self.updated_at = self.now
        return effect.count

    def _merge(self, merged: Merged) -> Merged:
        """Store a push, an append, a graft or tasks, and restore the planner; changed needs take a new planner."""
        self._store(merged)
        members, groups = [row for row, _ in merged.members], [row for row, _ in merged.groups]
        if merged.removed_members or merged.removed_groups or not self.planner.fits(members, groups):
            self.rebuild()
        else:
            self.planner.restore(members, groups)
        if merged.flow is not None:
            self.planner.take_flow(merged.flow)
        self.updated_at = self.now
        return merged

    def _store(self, merged: Merged) -> None:
        """Write the rows, with definitions and contexts."""
        merged.apply(self.ledger)
        self.definitions |= {row.number: definition for row, definition in merged.members}
        self.approvals |= {row.number for row, _ in merged.members if row.kind is MemberKind.APPROVAL}
        for row, definition in merged.groups:
            self.group_contexts[row.number] = dict(definition.context)
            self.group_definitions[row.number] = definition
        for number in merged.removed_members:
            self.definitions.pop(number, None)
            self.approvals.discard(number)
