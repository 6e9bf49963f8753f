"""A flow played by hand: the product's flow in memory, with single plans and ends that a test gives."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from crawler_lifecycle.base.limits import LARGEST_RESULT
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.definition import GroupDefinition, StepWork
from crawler_lifecycle.flows.model.values import to_text
from crawler_lifecycle.flows.rules.ends import AttemptEnd, RunSeen
from crawler_lifecycle.flows.rules.plan import AttemptStart, Plan
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.model.flow_states import EndKind, FlowState, MemberKind
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.testing import memory
from crawler_lifecycle.testing.scenario import NO_SCENARIO
from crawler_lifecycle.testing.steps import SteppedFlow

NOW = memory.NOW
FAILED, COMPLETED, CANCELLED = EndKind.FAILED, EndKind.COMPLETED, EndKind.CANCELLED


class Play(SteppedFlow):
    """A flow with its ledger. `order` has the paths of the jobs in the order of their starts."""

    def __init__(self, workflow: Workflow, *, now: datetime = NOW) -> None:
        super().__init__(workflow.definition(), NO_SCENARIO, now)
        self.order: list[str] = []
        self.stopped: list[str] = []
        self.open: list[AttemptStart] = []

    def advance(self) -> Plan:
        """Plan, write the plan, and plan again to see that nothing is left."""
        plan = self.planner.advance(self.now)
        assert not self.is_refused(plan)
        self.write(plan)
        assert self.planner.advance(self.now).is_empty
        return plan

    def write(self, plan: Plan) -> None:
        super().write(plan)
        self.open += plan.starts
        self.order += [self.ledger.members[start.number].path for start in plan.starts]
        self.stopped += [self.ledger.members[number].path for number in plan.stops]

    def is_refused(self, plan: Plan) -> bool:
        """Return whether a door was first, so that no part of the plan may be written."""
        return any(_fence(self.ledger.members[change.row.number]) != _fence(change.was) for change in plan.changes)

    def end(self, path: str, kind: EndKind = COMPLETED, result: Any = None, **details: Any) -> None:
        """End the attempt of a job that is under way."""
        row = self._taken(path)
        if row.kind is MemberKind.CRAWL and "attempt" not in details:
            status_of_run = RunStatus.COMPLETED if kind is COMPLETED else RunStatus.FAILED
            reason = "stopped" if kind is CANCELLED else details.pop("reason", None)
            self.observe(RunSeen(row.number, row.attempt, status_of_run, row.end + 1, self.now, reason, **details))
            return
        text = None if result is None else to_text("result", result, LARGEST_RESULT)
        self.settle(AttemptEnd(row.number, details.pop("attempt", row.attempt), kind, self.now, **details), text)

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
            path = self.ledger.members[self.open[0].number].path
            if remaining.get(path):
                self.end(path, FAILED, outcome=remaining[path].pop(0))
            elif call:
                self.call(path)
            else:
                self.end(path)
        return self.ledger.flow.state

    def call(self, path: str) -> None:
        """End the attempt with what the job's function returns; an exception of the function fails the test."""
        row = self.row(path)
        if not isinstance(self.definitions[row.number].work, StepWork):
            self.end(path)
            return
        end, text = self.end_step(row, next(start for start in self.open if start.number == row.number))
        if path in self.errors:
            raise self.errors.pop(path)
        self._taken(path)
        self.settle(end, text)

    @property
    def status(self) -> Any:
        return super().status

    @property
    def groups(self) -> dict[str, GroupDefinition]:
        return {self.ledger.groups[number].path: item for number, item in self.group_definitions.items()}

    def _taken(self, path: str) -> MemberRow:
        row = self.row(path)
        self.open = [start for start in self.open if start.number != row.number]
        return row


def _fence(row: MemberRow) -> tuple[Any, ...]:
    return row.generation, row.state, row.attempt
