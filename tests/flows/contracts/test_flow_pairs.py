"""All pairs of acts on a flow and its runs at once on MariaDB: no act deadlocks with another act."""

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from inspect import getmembers
from typing import Any, Protocol
from uuid import uuid4

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import Workflow, crawl, each_task
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.requests import GraftMembers
from crawler_lifecycle.flows.ports import ledger, records, steps
from crawler_lifecycle.flows.ports.ledger import CrawlToStop, Delivery, FlowStore, ManagerDoors
from crawler_lifecycle.flows.ports.steps import AttemptKey, StepEnd
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, GrowGroup
from crawler_lifecycle.flows.rules.plan import MemberChange
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.words import START_REFUSED
from crawler_lifecycle.model.flow_states import MemberKind, MemberState
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.crash.ports import between, methods_of
from tests.kit.authors.work import graft_function, item_and_context, plain
from tests.kit.data.contention import Act, contended_pairs
from tests.kit.data.databases import ref_to
from tests.kit.data.flows import COMPLETED, FAILED, MINUTE, Flow, pushed
from tests.kit.samples import few

ROUNDS = 2  # of each pair
NUMBERS = itertools.count()
WITH_RUN = 3  # crawls with a run from the beginning


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
        self.end_and_retry()
        self.flow.begin(str(uuid4()))
        self.flow.begin_steps(*self.starts(MemberKind.STEP)[:3])
        self.flow.begin_steps(self.flow.start("g"))
        self.other.begin_steps(*(self.other.start(f"steps/{number}") for number in range(3)))
        crawls = self.flow.start_crawls(*self.starts(MemberKind.CRAWL)[: WITH_RUN + 1]).crawls
        self.runs = [self.flow.run(start) for start in crawls[:WITH_RUN]]
        self.flow.close(self.runs[0], RunStatus.FAILED, "main_job_failed")

    def end_and_retry(self) -> None:
        """Put an end of the flow on record, whose announcement is owed, and open the flow again."""
        self.flow.cancel()
        self.flow.go_on()
        self.flow.retry()

    def revive(self) -> None:
        """Bring the members back that the acts have ended. One crawl under way has no run, and others may start."""
        self.flow.begin(str(uuid4()))
        self.flow.hold("run")
        for run in self.runs[WITH_RUN:]:
            self.flow.close(run)
        del self.runs[WITH_RUN:]
        has_one = len(self.without_run()) == 1
        if not has_one:
            self.end_attempts()()
        self.flow.retry(completed=True)
        if not has_one:
            self.flow.start_crawls(*self.starts(MemberKind.CRAWL)[-1:])

    def rows(self) -> list[MemberRow]:
        return [*self.flow.ledger.members.values()]

    def starts(self, kind: MemberKind) -> list[AttemptRef]:
        return [
            AttemptRef(number=row.number, generation=row.generation, attempt=row.attempt + 1)
            for row in self.rows()
            if row.kind is kind and row.state is MemberState.AVAILABLE
        ]

    def under_way(self, flow: Flow, kind: MemberKind = MemberKind.STEP) -> list[AttemptRef]:
        return [
            AttemptRef(number=row.number, generation=row.attempt_generation, attempt=row.attempt)
            for row in flow.ledger.members.values()
            if row.kind is kind and row.in_flight
        ]

    def without_run(self) -> list[CrawlToStop]:
        """The crawls under way whose run is still to be made, or refused."""
        return self.store.flow_ledger.unlinked_crawls(self.flow.flow, datetime.now(UTC) + MINUTE)

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
        changes = [MemberChange(row, row._replace(cause=cause)) for row in self.rows()]
        door = self.flow.door
        return lambda: self.flow.write(*changes, door=door)

    def read(self) -> Act:
        return lambda: self.flow.read(tasks_of="6-11")

    def start_crawls(self) -> Act:
        starts, door = self.starts(MemberKind.CRAWL), self.flow.door
        return lambda: self.flow.start_crawls(*starts, door=door)

    def end_attempts(self) -> Act:
        """The refusal of crawls whose run may be in the making."""
        crawls, now = self.without_run(), datetime.now(UTC)
        ends = [AttemptEnd(crawl.number, crawl.attempt, FAILED, now, reason=START_REFUSED) for crawl in crawls]
        messages = {end.number: str(next(NUMBERS)) for end in ends}
        flow = self.flow.flow
        return lambda: self.store.flow_ledger.end_attempts(flow, ends, messages)

    def stop_crawls(self) -> Act:
        return lambda: self.store.flow_ledger.crawls_to_stop(self.flow.flow, range(20))

    def grow(self) -> Act:
        _, groups = self.flow.read().rows.unpacked()
        (group,) = (group for group in groups if group.path == "tasks")
        step = GrowGroup(flow=self.flow.flow, group=group.number, expected=group.expected + 1)
        return lambda: self.store.flow_ledger.grow(step)

    def take_over(self) -> Act:
        execution = SupervisorExecution(f"flow-{self.flow.uid}", str(uuid4()))

        def act() -> None:
            self.flow.ref = self.store.flow_ledger.begin(self.flow.uid, execution)

        return act

    def begin(self) -> Act:
        starts, door = [*self.starts(MemberKind.STEP)[::-1], *self.under_way(self.flow)], self.flow.door
        return lambda: self.flow.begin_steps(*starts, door=door)

    def held(self) -> list[AttemptKey]:
        flows = (self.other, self.flow)
        return [(flow.uid, start.number, start.attempt) for flow in flows for start in self.under_way(flow)]

    def renew(self) -> Act:
        held = self.held()
        return lambda: self.store.step_ledger.renew("host", MINUTE, held)

    def withdraw(self) -> Act:
        held = self.held()[::-2]
        return lambda: self.store.step_ledger.withdraw("host", held)

    def note_cause(self) -> Act:
        return lambda: self.store.step_ledger.note_cause(self.flow.uid, range(20), str(next(NUMBERS)))

    def end(self) -> Act:
        """The ends of two flows at once."""
        ends = [
            StepEnd(flow.uid, start, COMPLETED, datetime.now(UTC), result=str(next(NUMBERS)))
            for flow in (self.other, self.flow)
            for start in self.under_way(flow)[::-1][:2]
        ]
        return lambda: self.store.step_ledger.end(ends, "host")

    def prune(self) -> Act:
        """The pruning of a flow that has ended, beside flows that have not."""
        ended = pushed(self.database, Workflow(id=f"ended-{next(NUMBERS)}").add("a", plain))
        ended.cancel()
        ended.go_on()
        uids = [self.other.uid, ended.uid, self.flow.uid]
        return lambda: self.store.flow_doors.prune(uids)

    def settle(self) -> Act:
        """A try to announce the flow's end in vain, and a try with success: each adds a line to the timeline."""
        problems = {Delivery.NOTICE: str(next(NUMBERS))}

        def act() -> None:
            self.store.flow_ends.settle(self.flow.uid, 1, [Delivery.EVENT], problems)
            self.store.flow_ends.settle(self.flow.uid, 1, [Delivery.NOTICE], {})

        return act

    def make_run(self) -> Act:
        number = self.without_run()[0].number
        (start,) = (start for start in self.under_way(self.flow, MemberKind.CRAWL) if start.number == number)
        (crawl,) = self.flow.start_crawls(start).crawls  # started already: the answer has the request for the run
        return lambda: self.runs.append(self.flow.run(crawl, "execution"))

    def close_run(self) -> Act:
        return lambda: self.flow.close(self.runs[1])

    def reopen_run(self) -> Act:
        run = self.store.runs.get(self.runs[0].run_id)
        execution = SupervisorExecution(run.workflow_id, str(uuid4()))

        def act() -> None:
            self.store.runs.reopen(run.run_id, execution)
            again = self.store.runs.get(run.run_id)
            self.store.tasks.cancel_queued(ref_to(again), "stopped")
            self.store.runs.close(ref_to(again), RunStatus.FAILED, "main_job_failed")

        return act


ACTS = [
    World.push, World.append, World.graft, World.cancel, World.retry, World.approve, World.hold, World.write,
    World.read, World.start_crawls, World.end_attempts, World.stop_crawls, World.grow, World.take_over,
    World.begin, World.renew, World.withdraw, World.note_cause, World.end, World.settle, World.make_run,
    World.close_run, World.reopen_run, World.prune,
]  # fmt: skip
READING = {  # methods of the ports for flows that write nothing
    "flow_ledger.read", "flow_ledger.unlinked_crawls", "step_ledger.inputs", "step_ledger.results",
    "step_ledger.source", "flow_ends.owed", "flow_ends.unannounced", "flow_records.uid_of",
    "flow_records.page", "flow_records.between", "flow_records.row", "flow_records.kept", "flow_records.tallies",
    "flow_records.news", "flow_records.numbers", "flow_records.results", "flow_records.attempts",
    "flow_records.lines", "flow_records.figures", "flow_records.silent", "flow_records.reopened",
    "flow_records.unstarted", "flow_records.awaiting_approval", "flow_records.without_host",
    "flow_records.with_failed_items", "flow_records.end_of_search",
}  # fmt: skip


OFTEN_CHANGED = (World.write, World.end)


@pytest.mark.parametrize("first", few(ACTS, OFTEN_CHANGED), ids=lambda act: str(act.__name__))
@pytest.mark.long
def test_no_pair_of_acts_deadlocks(wide_mariadb: Database, first: Callable[[World], Act]) -> None:
    assert contended_pairs(wide_mariadb, first, ACTS, World(wide_mariadb), ROUNDS) == []


def is_port(value: object) -> bool:
    return getattr(value, "_is_protocol", False) and value is not Protocol


def ports_for_flows() -> dict[str, type]:
    """The ports for the rows of flows by their names in the store, such as `flow_doors` for FlowDoors."""
    modules = (ledger, records, steps)
    defined = [
        port for module in modules for _, port in getmembers(module, is_port) if port.__module__ == module.__name__
    ]
    ports = [port for port in defined if port not in (FlowStore, ManagerDoors)]
    return {re.sub(r"\B(?=[A-Z])", "_", port.__name__).lower(): port for port in ports}


def used_by_acts(world: World, ports: dict[str, type]) -> set[str]:
    """Run each act alone, and return the methods that the acts use, as `port.method`."""
    used: set[str] = set()
    noted: set[str] = set()

    def note(method: str, call: Callable[[], Any]) -> Any:
        noted.add(method)
        return call()

    for name, port in ports.items():
        setattr(world.store, name, between(note, getattr(world.store, name), name, methods_of(port)))
    for make_act in ACTS:
        act = make_act(world)
        noted.clear()  # the methods for the preparation
        act()
        used |= noted
        world.revive()
    return used


def test_acts_use_each_method_that_writes(database: Database) -> None:
    ports = ports_for_flows()
    methods = {f"{name}.{method}" for name, port in ports.items() for method in methods_of(port)}
    assert used_by_acts(World(database), ports) | READING == methods
