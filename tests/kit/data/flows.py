"""Flows in a database: graphs that are pushed, attempts that start and end, and supervisors that write."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.ranges import to_ranges, to_ranges_by_value
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.definition import Fragment
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
)
from crawler_lifecycle.flows.ports.ledger import CrawlStart
from crawler_lifecycle.flows.ports.steps import NO_READS, StepEnd, StepsBegun
from crawler_lifecycle.flows.rules.ends import AttemptEnd, in_order
from crawler_lifecycle.flows.rules.messages import (
    AttemptRef,
    FlowRef,
    LedgerPage,
    PackedRows,
    ReadFlow,
    StartCrawls,
    WriteFlow,
    Written,
)
from crawler_lifecycle.flows.rules.plan import MemberChange, Plan
from crawler_lifecycle.flows.rules.planner import Observation, Planner
from crawler_lifecycle.flows.rules.rows import Ledger, MemberRow
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.flow_states import EndKind, MemberKind
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun, SupervisorExecution
from tests.kit.authors.work import plain
from tests.kit.data.databases import ref_to

MINUTE = timedelta(minutes=1)
COMPLETED, FAILED, CANCELLED = EndKind.COMPLETED, EndKind.FAILED, EndKind.CANCELLED
BOOKS = Crawler(name="books", command=["true"])


@dataclass
class Flow:
    """A flow on record, with its doors and a supervisor that believes the ledger."""

    store: SqlStore
    id: str
    uid: str
    ref: FlowRef | None = None
    ahead: timedelta = timedelta()  # of the supervisor's clock

    # doors

    def push(self, workflow: Workflow, **fields: Any) -> FlowAnswer:
        return self.store.flow_doors.push(PushFlow(definition=workflow.definition(), **fields))

    def append(self, key: str, workflow: Workflow, **fields: Any) -> FlowAnswer:
        definition = workflow.definition()
        fragment = Fragment(groups=definition.groups, members=definition.members)
        return self.store.flow_doors.append(self.id, AppendMembers(key=key, fragment=fragment, **fields))

    def cancel(self, *paths: str, **fields: Any) -> FlowAnswer:
        return self.store.flow_doors.change(self.id, CancelMembers(paths=paths or None, **fields))

    def retry(self, *paths: str, **fields: Any) -> FlowAnswer:
        return self.store.flow_doors.change(self.id, RetryMembers(paths=paths or None, **fields))

    def approve(self, path: str, **fields: Any) -> FlowAnswer:
        return self.store.flow_doors.change(self.id, ApproveMember(path=path, **fields))

    def hold(self, hold: str) -> FlowAnswer:
        return self.store.flow_doors.change(self.id, HoldFlow(hold=hold))

    # the ledger as it is

    @property
    def ledger(self) -> Ledger:
        return self.store.flow_records.kept(self.id).ledger

    def row(self, path: str) -> MemberRow:
        ledger = self.ledger
        return ledger.members[ledger.paths_of_members()[path]]

    @property
    def states(self) -> dict[str, str]:
        return {row.path: row.state.value for row in self.ledger.members.values()}

    @property
    def events(self) -> list[str]:
        return [line.event for line in self.store.flow_records.lines(self.id, after=0, limit=100)]

    # the supervisor

    def begin(self, execution: str = "first", began_at: datetime | None = None) -> FlowRef:
        self.ref = self.store.flow_ledger.begin(self.uid, SupervisorExecution(f"flow-{self.uid}", execution, began_at))
        return self.ref

    @property
    def flow(self) -> FlowRef:
        return self.ref or self.begin()

    def read(self, since: int = -1, **fields: Any) -> LedgerPage:
        return self.store.flow_ledger.read(ReadFlow(flow=self.flow, since=since, **fields))

    @property
    def door(self) -> int:
        return self.read(since=10**6).door

    def write(self, *changes: MemberChange, door: int | None = None, **fields: Any) -> int | None:
        """Return the write's number; None if the writing is stale."""
        return self.written(*changes, door=door, **fields).version or None

    def written(self, *changes: MemberChange, door: int | None = None, **fields: Any) -> Written:
        ended = to_ranges_by_value({change.row.number: change.row.attempt for change in changes if change.has_ended})
        step = WriteFlow(
            flow=self.flow,
            door=self.door if door is None else door,
            rows=PackedRows.from_rows([change.row for change in changes]),
            ended=ended,
            **fields,
        )
        return self.store.flow_ledger.write(step)

    def plan(self) -> tuple[Planner, Plan]:
        """A supervisor plans after it has read everything and looked at all that is under way."""
        page = self.read()
        members, groups = page.rows.unpacked()
        ledger = Ledger(page.row)
        ledger.put(members, groups)
        planner = Planner(ledger)
        numbers = to_ranges(planner.in_flight)
        looked = self.read(since=page.door, tasks_of=numbers)
        observations: list[Observation] = [*in_order(looked.begins, looked.ends), *looked.runs, *looked.tasks]
        for seen in observations:
            planner.observe(seen)
        return planner, planner.advance(datetime.now(UTC) + self.ahead)

    def go_on(self) -> Plan:
        """Write the plan, and start what is to start: steps by begins of the token `host`, crawls on record."""
        planner, plan = self.plan()
        starts = {start.number for start in plan.starts}
        self.act(*(change for change in plan.changes if change.row.number not in starts))
        refs = [AttemptRef(number=s.number, generation=s.generation, attempt=s.attempt) for s in plan.starts]
        crawls = [ref for ref in refs if planner.rows[ref.number].kind is MemberKind.CRAWL]
        steps = [ref for ref in refs if planner.rows[ref.number].kind is MemberKind.STEP]
        if steps:
            assert not self.begin_steps(*steps).stale
        if crawls:
            assert not self.start_crawls(*crawls).stale
        if plan.flow_state is not None:
            self.act(state=plan.flow_state)
        return plan

    def act(self, *changes: MemberChange, **fields: Any) -> None:
        """Write as the supervisor does, which knows the number of its act."""
        version = self.write(*changes, **fields)
        assert version
        self.note(version)

    def note(self, version: int) -> None:
        self.ref = self.flow.model_copy(update={"version": max(version, self.flow.version)})

    def start(self, path: str) -> AttemptRef:
        """The next attempt of the member."""
        row = self.row(path)
        return AttemptRef(number=row.number, generation=row.generation, attempt=row.attempt + 1)

    def last(self, path: str) -> AttemptRef:
        """The present attempt of the member."""
        row = self.row(path)
        return AttemptRef(number=row.number, generation=row.attempt_generation, attempt=row.attempt)

    # hosts

    def begin_steps(
        self,
        *starts: AttemptRef,
        token: str = "host",
        lasts: timedelta = MINUTE,
        door: int | None = None,
        code_version: str | None = None,
        reads: Mapping[int, int] = NO_READS,
        in_process: bool = True,
    ) -> StepsBegun:
        door = self.door if door is None else door
        ledger, host = self.store.step_ledger, (token, f"host of {token}", code_version)
        ledger.renew(token, MINUTE)
        begun = ledger.begin(self.flow, door, starts, *host, reads, in_process=in_process)
        if lasts != MINUTE:
            ledger.renew(token, lasts)
        return begun

    def end(
        self, *starts: AttemptRef, kind: EndKind = COMPLETED, token: str = "host", **fields: Any
    ) -> list[AttemptEnd]:
        ends = [StepEnd(self.uid, start, kind, datetime.now(UTC), **fields) for start in starts]
        return list(self.store.step_ledger.end(ends, token).values())

    # crawls

    def start_crawls(self, *starts: AttemptRef, door: int | None = None, reads: str = "") -> Any:
        step = StartCrawls(flow=self.flow, door=self.door if door is None else door, starts=starts, reads=reads)
        started = self.store.flow_ledger.start_crawls(step)
        self.note(started.version)
        return started

    def run(self, crawl: CrawlStart, execution: str | None = None, tasks: int = 1) -> RunRecord:
        """The run that the crawl's workflow makes."""
        new = NewRun(crawl.request, BOOKS, tasks, crawl.workflow_id, execution or str(uuid4()))
        return self.store.runs.create(new)

    def close(self, run: RunRecord, status: RunStatus = RunStatus.COMPLETED, reason: str = "all_succeeded") -> None:
        run = self.store.runs.get(run.run_id)
        self.store.tasks.cancel_queued(ref_to(run), "stopped")
        self.store.runs.close(ref_to(run), status, reason)


def pushed(database: Database, workflow: Workflow, **fields: Any) -> Flow:
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=workflow.definition(), **fields))
    return Flow(store, answer.flow_id, answer.flow_uid)


def failing(database: Database, name: str = "w") -> Flow:
    """A flow that has ended: one step failed, and its dependent was cancelled."""
    graph = Workflow("nightly", id=name, family="shops").add("b", plain).add("a", plain).add("c", plain, deps="a")
    flow = pushed(database, graph)
    flow.go_on()
    flow.end(flow.last("b"))
    flow.end(flow.last("a"), kind=FAILED, reason="no such table " * 100)
    while not flow.go_on().is_empty:
        pass
    return flow


def rows_of(page: LedgerPage) -> list[MemberRow]:
    return page.rows.unpacked()[0]


def paths(rows: Iterable[MemberRow]) -> list[str]:
    return [row.path for row in rows]
