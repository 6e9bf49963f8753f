"""Play a flow in memory in virtual time, with the service's planner, real functions and chosen outcomes."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count

from crawler_lifecycle.flows.authors.workflow import Workflow
from crawler_lifecycle.flows.model.definition import CrawlWork, FlowDefinition, StepWork
from crawler_lifecycle.flows.rules.ends import TasksSeen, is_failure
from crawler_lifecycle.flows.rules.plan import AttemptStart, Plan
from crawler_lifecycle.flows.rules.requesting import memory_after, run_request
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.words import START_REFUSED
from crawler_lifecycle.hosts.outcomes import timed_out
from crawler_lifecycle.model.flow_states import EndKind, FlowState, GroupGrowth, MemberKind, MemberState
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.testing.client import MemoryClient
from crawler_lifecycle.testing.memory import NOW
from crawler_lifecycle.testing.outcomes import Answer, RefusedCrawl, stopped
from crawler_lifecycle.testing.records import MemoryLedger
from crawler_lifecycle.testing.runs import PlayedRun, PlayedRuns
from crawler_lifecycle.testing.scenario import NO_SCENARIO, Scenario
from crawler_lifecycle.testing.steps import SteppedFlow

Event = Callable[[], None]


class Play(SteppedFlow):
    """A flow in virtual time. Acts by people, such as `cancel` and `retry`, come between two calls."""

    def __init__(
        self,
        workflow: Workflow | FlowDefinition,
        scenario: Scenario = NO_SCENARIO,
        *,
        now: datetime = NOW,
        client: MemoryClient | None = None,
    ) -> None:
        super().__init__(workflow.definition() if isinstance(workflow, Workflow) else workflow, scenario, now)
        self.client = client or _client_of(self)
        self.surroundings = self.client.surrounding
        self.order: list[str] = []  # paths in the order of the attempts' starts
        self.choices: list[str] = []  # paths in the order of the scenario's choices
        self.stops: list[str] = []  # paths for attempts with a request to end
        self._new_runs = PlayedRuns()
        self._memory: dict[int, float | None] = {}  # factors of last attempts, by member's number
        self._events: list[tuple[datetime, int, MemberRow, Event]] = []
        self._numbers = count()
        self._wake_at: datetime | None = None
        self._asked: set[tuple[int, int]] = set()  # approvals with an answer to come, by number and generation

    def run(self, **time: float) -> FlowState:
        """Let the flow continue until its end or a standstill, or for a time, with a timedelta's arguments."""
        until = self.now + timedelta(**time) if time else None
        self._act()
        while (due := self._due()) is not None and (until is None or due <= until):
            self.now = max(self.now, due)
            if self._events and self._events[0][0] <= self.now:
                heappop(self._events)[3]()
            self._act()
        if until is not None:
            self.now = until
        if not self._events:
            self.caller.close()
            self.client.end_thread()
        return self.ledger.flow.state

    def change(self, scenario: Scenario) -> None:
        """Choose other outcomes for the attempts from now on."""
        self.scenario = scenario
        self._attempts.clear()
        self._asked.clear()

    def check_scenario(self, scenario: Scenario | None = None) -> None:
        """Raise BadInput for a choice without a member, in the scenario or in the play's own."""
        works = {self.ledger.members[number].path: item.work for number, item in self.definitions.items()}
        growing = [group.path for group in self.ledger.groups.values() if group.growth is not None]
        growing += [path for path, work in works.items() if isinstance(work, StepWork) and work.is_manager]
        (scenario or self.scenario).check(works, growing)

    # inside

    def _due(self) -> datetime | None:
        """Return when the next event or plan is due. Events for ended attempts are dropped."""
        while self._events and not self._is_open(self._events[0][2]):
            heappop(self._events)
        times = [self._events[0][0]] if self._events else []
        return min([*times, self._wake_at] if self._wake_at is not None else times, default=None)

    def _at(self, at: datetime, row: MemberRow, event: Event) -> None:
        heappush(self._events, (at, next(self._numbers), row, event))

    def _act(self) -> None:
        """Plan and act until the plans are empty."""
        while True:
            plan = self.advance()
            self._ask()
            if plan.is_empty and not self._see_last_tasks():
                self._wake_at = plan.wake_at
                return
            self._do(plan)

    def _do(self, plan: Plan) -> None:
        for group in plan.groups:
            if group.growth is GroupGrowth.TASKS:
                self.grow(group.number)
        for start in plan.starts:
            self._start(start)
        for number in plan.stops:
            row = self.ledger.members[number]
            self.stops.append(row.path)
            self._at(self.now, row, partial(self._stop, row))

    def _start(self, start: AttemptStart) -> None:
        row = self.ledger.members[start.number]
        self.order.append(row.path)
        self.choices.append(row.path)
        if row.kind is MemberKind.CRAWL:
            self._start_crawl(row, start)
            return
        takes, limit = self.scenario.duration(row.path), self.limit(row)
        if limit is not None and limit < takes:
            ended = timed_out(limit.total_seconds())
            end = partial(self._end_at_once, row, ended.kind, ended.reason, ended.outcome)
            self._at(self.now + limit, row, end)
        else:
            self._at(self.now + takes, row, partial(self._step_ends, row, start))

    def _step_ends(self, row: MemberRow, start: AttemptStart) -> None:
        self.settle(*self.end_step(self.ledger.members[row.number], start))

    def _end_at_once(
        self, row: MemberRow, kind: EndKind, reason: str | None = None, outcome: str | None = None
    ) -> None:
        self.settle(self.attempt_end(row, kind, reason, outcome))

    def _stop(self, row: MemberRow) -> None:
        """End an attempt after a cancel."""
        if row.kind is MemberKind.CRAWL and self.played_runs.get(row.path):
            run = self.played_runs[row.path][-1] = self.played_runs[row.path][-1].ended_as(stopped())
            self.observe(run.seen(row, RunStatus.FAILED, self.now))
        else:
            self._end_at_once(row, EndKind.CANCELLED)

    def _is_open(self, row: MemberRow) -> bool:
        """Return whether the row's attempt is still under way, or whether the approval still waits."""
        present = self.ledger.members.get(row.number)
        if present is None:
            return False
        if row.kind is MemberKind.APPROVAL:
            return present.state is MemberState.AVAILABLE and present.generation == row.generation
        return present.in_flight and present.attempt == row.attempt

    # crawls

    def _start_crawl(self, row: MemberRow, start: AttemptStart) -> None:
        definition = self.definitions[row.number]
        work = definition.work
        assert isinstance(work, CrawlWork)
        outcome = self.scenario.crawl(row.path, work.request.crawler, self.count_attempt(row.path))
        if isinstance(outcome, RefusedCrawl):
            self._at(self.now, row, partial(self._end_at_once, row, EndKind.FAILED, START_REFUSED))
            return
        memory = self._memory[row.number] = memory_after(start.rule, work, self._memory.get(row.number))
        arguments = self.arguments_for(row, start)
        request = run_request(work, arguments, self._link(row), memory, priority=definition.priority)
        run = self._new_runs.new(request, outcome)
        self.run_ids[row.number] = run.run_id
        self.played_runs.setdefault(row.path, []).append(run)
        self._at(self.now, row, partial(self._see_run, row, run, RunStatus.PROCESSING))
        for task, end in outcome.task_ends(run.tasks).items():
            at = self.now + outcome.after * (task + 1) / run.tasks
            self._at(at, row, partial(self.observe, TasksSeen(row.number, row.generation, {task: end})))
        ended_at = self.now + outcome.after
        if outcome.archived_after:
            self._at(ended_at, row, partial(self._see_run, row, run, outcome.status, archived=False))
        self._at(ended_at + outcome.archived_after, row, partial(self._see_run, row, run, outcome.status))

    def _link(self, row: MemberRow) -> FlowLink:
        return FlowLink(
            flow_uid=self.uid,
            flow_id=self.id,
            member=row.number,
            path=row.path,
            generation=row.generation,
            attempt=row.attempt,
        )

    def _see_run(self, row: MemberRow, run: PlayedRun, status: RunStatus, *, archived: bool = True) -> None:
        if status is RunStatus.COMPLETED and not is_failure(row.retry, run.outcome.outcome):
            self.keep_result(row, run.receipt())
        self.observe(run.seen(row, status, self.now, archived=archived))

    def _see_last_tasks(self) -> bool:
        """Look at the tasks of runs that have ended, as a supervisor does; return whether there are such runs."""
        numbers = self.planner.crawls_to_ask
        for number in numbers:
            row = self.ledger.members[number]
            run = self.played_runs[row.path][-1] if row.path in self.played_runs else None
            self.observe(TasksSeen(number, row.generation, run.outcome.task_ends(run.tasks) if run else {}))
        return bool(numbers)

    # approvals

    def _ask(self) -> None:
        """Let people answer for approvals that the flow has reached."""
        for row in [self.ledger.members[number] for number in self.approvals]:
            is_open = row.state is MemberState.AVAILABLE and row.decision is None
            answer = self.scenario.answer(row.path) if is_open else None
            if answer is not None and (row.number, row.generation) not in self._asked:
                self._asked.add((row.number, row.generation))
                self.choices.append(row.path)
                self._at(self.now + answer.after, row, partial(self._answer, row, answer))

    def _answer(self, row: MemberRow, answer: Answer) -> None:
        self.approve(row.path, approved=answer.is_approved, actor=answer.actor, note=answer.note)


def _client_of(play: Play) -> MemoryClient:
    """Return a client for a single flow."""
    ledger = MemoryLedger()
    ledger.flows[play.id] = play
    return MemoryClient(ledger)
