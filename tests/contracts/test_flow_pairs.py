"""All pairs of acts on a flow and its runs at once on MariaDB: no act deadlocks with another act."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.contract.flows.requests import GraftMembers
from crawler_lifecycle.contract.flows.states import MemberState
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.domain.flows.messages import AttemptRef, GrowGroup
from crawler_lifecycle.domain.flows.plan import Change
from crawler_lifecycle.domain.flows.rows import MemberKind, MemberRow
from crawler_lifecycle.flows import Workflow, crawl, each_task
from crawler_lifecycle.flows.building import fragment_of
from crawler_lifecycle.ports import CrawlStart, Execution, StepEnd
from tests.contracts.contention import Act, contended_pairs
from tests.contracts.flows import COMPLETED, MINUTE, Flow, pushed, rows_of
from tests.databases import ref_to
from tests.unit.flows.work import graft_function, item_and_context, plain

ROUNDS = 2  # of each pair
NUMBERS = itertools.count()


def shops(number: int = 0) -> Workflow:
    """A workflow in which each act has something to do. The push of another number changes an unstarted member."""
    return (
        Workflow(id="pairs")
        .add_many("steps", [plain] * 6)
        .add_many("crawls", [crawl("books")] * 6)
        .add_cascade("tasks", each_task("crawls/0", item_and_context))
        .add_graft("g", graft_function)
        .add_approval("release", deps="g")
        .add("changing", plain, deps="release", priority=number % 1000)
    )


class World:
    """A flow in the middle of its life, and acts on the flow."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.flow = pushed(database, shops())
        self.other = pushed(database, Workflow(id="other").add_many("steps", [plain] * 3))
        self.store = self.flow.store
        self.flow.begin(str(uuid4()))
        self.flow.claim(*self.starts(MemberKind.STEP)[:3])
        self.flow.claim(self.flow.start("g"))
        self.other.claim(*(self.other.start(f"steps/{number}") for number in range(3)))
        self.crawls: list[CrawlStart] = self.flow.start_crawls(*self.starts(MemberKind.CRAWL)[:4]).crawls
        self.runs = [self.flow.run(start) for start in self.crawls[:3]]
        self.flow.close(self.runs[0], RunStatus.FAILED, "main_job_failed")

    def revive(self) -> None:
        """Bring the members back that the acts have ended."""
        self.flow.begin(str(uuid4()))
        self.flow.hold("run")
        self.flow.retry(completed=True)

    def rows(self) -> list[MemberRow]:
        return rows_of(self.flow.read())

    def starts(self, kind: MemberKind) -> list[AttemptRef]:
        return [
            AttemptRef(number=row.number, generation=row.generation, attempt=row.attempt + 1)
            for row in self.rows()
            if row.kind is kind and row.state is MemberState.AVAILABLE
        ]

    def under_way(self, flow: Flow, kind: MemberKind = MemberKind.STEP) -> list[AttemptRef]:
        return [
            AttemptRef(number=row.number, generation=row.attempt_generation, attempt=row.attempt)
            for row in rows_of(flow.read())
            if row.kind is kind and row.in_flight
        ]

    # Acts: a method reads what the act needs, and returns the act.

    def push(self) -> Act:
        return lambda: self.flow.push(shops(next(NUMBERS)))

    def append(self) -> Act:
        return lambda: self.flow.append(str(next(NUMBERS)), Workflow().add(f"more{next(NUMBERS)}", plain))

    def graft(self) -> Act:
        fragment = fragment_of(Workflow().add(f"x{next(NUMBERS)}", plain))
        (row,) = (row for row in self.rows() if row.path == "g")
        request = GraftMembers(grafter="g", generation=row.generation, attempt=max(1, row.attempt), fragment=fragment)
        return lambda: self.store.flow_doors.graft(self.flow.uid, request)

    def cancel(self) -> Act:
        return self.flow.cancel

    def retry(self) -> Act:
        return lambda: self.flow.retry(completed=True)

    def approve(self) -> Act:
        approved = next(NUMBERS) % 2 == 0
        return lambda: self.flow.approve("release", approved=approved)

    def hold(self) -> Act:
        hold = ("pause", "run")[next(NUMBERS) % 2]
        return lambda: self.flow.hold(hold)

    def write(self) -> Act:
        cause = str(next(NUMBERS))
        changes = [Change(row, row._replace(cause=cause)) for row in self.rows()]
        door = self.flow.door
        return lambda: self.flow.write(*changes, door=door)

    def read(self) -> Act:
        return lambda: self.flow.read(look_at="0-99", tasks_of="6-11")

    def start_crawls(self) -> Act:
        starts, door = self.starts(MemberKind.CRAWL), self.flow.door
        return lambda: self.flow.start_crawls(*starts, door=door)

    def stop_crawls(self) -> Act:
        return lambda: self.store.flow_ledger.crawls_to_stop(self.flow.flow, range(20))

    def grow(self) -> Act:
        _, groups = self.flow.read().rows.unpacked()
        (group,) = (group for group in groups if group.path == "tasks")
        step = GrowGroup(flow=self.flow.flow, group=group.number, expected=group.expected + 1)
        return lambda: self.store.flow_ledger.grow(step)

    def take_over(self) -> Act:
        execution = Execution(f"flow-{self.flow.uid}", str(uuid4()))

        def act() -> None:
            self.flow.ref = self.store.flow_ledger.begin(self.flow.uid, execution)

        return act

    def claim(self) -> Act:
        starts, door = [*self.starts(MemberKind.STEP)[::-1], *self.under_way(self.flow)], self.flow.door
        return lambda: self.flow.claim(*starts, door=door)

    def begin(self) -> Act:
        starts = self.under_way(self.flow)[::-1]
        return lambda: self.store.step_claims.begin(self.flow.uid, starts, "host")

    def renew(self) -> Act:
        return lambda: self.store.step_claims.renew("host", MINUTE)

    def release(self) -> Act:
        return lambda: self.store.step_claims.release("host")

    def note_cause(self) -> Act:
        return lambda: self.store.step_claims.note_cause(self.flow.uid, range(20), str(next(NUMBERS)))

    def end(self) -> Act:
        """The ends of two flows at once."""
        ends = [
            StepEnd(flow.uid, start, COMPLETED, datetime.now(UTC), result=str(next(NUMBERS)))
            for flow in (self.other, self.flow)
            for start in self.under_way(flow)[::-1][:2]
        ]
        return lambda: self.store.step_claims.end(ends, "host")

    def prune(self) -> Act:
        """The pruning of a flow that has ended, beside flows that have not."""
        ended = pushed(self.database, Workflow(id=f"ended-{next(NUMBERS)}").add("a", plain))
        ended.cancel()
        ended.go_on()
        uids = [self.other.uid, ended.uid, self.flow.uid]
        return lambda: self.store.flow_doors.prune(uids)

    def make_run(self) -> Act:
        return lambda: self.runs.append(self.flow.run(self.crawls[3], "execution"))

    def close_run(self) -> Act:
        return lambda: self.flow.close(self.runs[1])

    def reopen_run(self) -> Act:
        run = self.store.runs.get(self.runs[0].run_id)
        execution = Execution(run.workflow_id, str(uuid4()))

        def act() -> None:
            self.store.runs.reopen(run.run_id, execution)
            again = self.store.runs.get(run.run_id)
            self.store.tasks.cancel_queued(ref_to(again), "stopped")
            self.store.runs.close(ref_to(again), RunStatus.FAILED, "main_job_failed")

        return act


ACTS = [
    World.push, World.append, World.graft, World.cancel, World.retry, World.approve, World.hold, World.write,
    World.read, World.start_crawls, World.stop_crawls, World.grow, World.take_over, World.claim, World.begin,
    World.renew, World.release, World.note_cause, World.end, World.make_run, World.close_run, World.reopen_run,
    World.prune,
]  # fmt: skip


@pytest.mark.parametrize("first", ACTS, ids=lambda act: str(act.__name__))
def test_no_pair_of_acts_deadlocks(wide_mariadb: Database, first: Callable[[World], Act]) -> None:
    assert contended_pairs(wide_mariadb, first, ACTS, World(wide_mariadb), ROUNDS) == []
