"""A crawl manager on record, with its host, its runs and its people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.model.turns import NO_EFFECTS, Begun, Counts, Effects, Page, Reaction, Retry, Start
from crawler_lifecycle.managers.ports import ManagerRef, ManagerStart, ManagerStarts
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.manager_items import Item, Job, Origin, Verdict, Waiting
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunParameters
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun, SupervisorExecution
from tests.kit.data.flows import BOOKS, Flow

MANAGER = 0  # number of the flow's only member


def item(name: str, key: str | None = "", **fields: Any) -> Item:
    """A parameter set; its key is the name unless another is given."""
    request = RunParameters(crawler="books", arguments={"shop": name})
    return Item(override={"shop": name}, request=request, key=name if key == "" else key, **fields)


def added(name: str, key: str | None = None) -> Item:
    return item(name, key, origin=Origin.ADDED)


@dataclass
class Managed(Flow):
    """A flow with a manager, whose attempt the token `host` has claimed."""

    ref_to_manager: ManagerRef = field(default_factory=lambda: ManagerRef("", MANAGER, 1, "host"))

    @property
    def managers(self) -> Any:
        return self.store.managers

    @property
    def mine(self) -> ManagerRef:
        return self.ref_to_manager

    def begun(self, child: str = "child-1") -> Begun:
        begun: Begun = self.managers.begin(self.mine, child)
        return begun

    def offer(self, *names: str, read: int | None = None, **fields: Any) -> list[int | None]:
        items = tuple(item(name) for name in names)
        read = self.begun_read + len(items) if read is None else read
        return list(self.managers.offer(self.mine, Page(items=items, read=read, **fields)).numbers)

    @property
    def begun_read(self) -> int:
        return int(self.managers.begin(self.mine, "child-1").read)

    def commit(self, *new: Item, call: str = "call", **fields: Any) -> list[int]:
        return list(self.managers.commit(self.mine, Effects(add=new, **fields), call))

    def waiting(self, limit: int = 100, after: Waiting | None = None) -> list[Waiting]:
        return list(self.managers.waiting(self.mine, limit, after=after))

    def start_items(self, *chosen: Waiting) -> ManagerStarts:
        starts = [
            Start(number=entry.number, attempt=entry.attempt, generation=entry.generation, request=entry.request)
            for entry in chosen
        ]
        answer: ManagerStarts = self.managers.start(self.mine, starts)
        return answer

    def started(self, number: int = 1) -> ManagerStart:
        (chosen,) = [entry for entry in self.waiting() if entry.number == number]
        (start,) = self.start_items(chosen).started
        return start

    def run_of(self, start: ManagerStart) -> RunRecord:
        return self.store.runs.create(NewRun(start.request, BOOKS, 1, start.job.key, str(uuid4())))

    def ended_run(self, start: ManagerStart, status: RunStatus = RunStatus.COMPLETED) -> RunRecord:
        run = self.run_of(start)
        self.close(run, status, "all_succeeded" if status is RunStatus.COMPLETED else "main_job_failed")
        return run

    def ended(self, limit: int = 100, **fields: Any) -> list[Job]:
        return list(self.managers.ended(self.mine, limit, **fields))

    def react(
        self,
        job: Job,
        verdict: Verdict = Verdict.OK,
        effects: Effects = NO_EFFECTS,
        outcome: Any = None,
        **retry: Any,
    ) -> None:
        again = Retry(override=job.override, request=job.request, **retry) if retry else None
        end = {"number": job.number, "attempt": job.attempt, "ended_at": job.ended_at}
        reaction = Reaction(**end, verdict=verdict, retry=again, effects=effects, outcome=outcome)
        self.managers.react(self.mine, [reaction])

    def begun_by(self, token: str) -> ManagerRef:
        """Let another host take the manager's attempt."""
        ref = self.last("manager")
        self.store.step_ledger.withdraw(self.mine.token, [(self.uid, MANAGER, self.mine.attempt)])
        assert self.begin_steps(ref, token=token).mine
        return ManagerRef(self.uid, MANAGER, self.mine.attempt, token)


def managed(
    database: Database,
    id: str = "shops/nightly",  # noqa: A002
    *,
    begins: bool = True,
    arguments: Sequence[str] = ("--own", "3"),
    dependents: Sequence[MemberDefinition] = (),
) -> Managed:
    """A manager that has begun, unless told otherwise."""
    work = StepWork(function="m:Shops", form=CallForm.MANAGER, arguments=list(arguments))
    definition = FlowDefinition(
        id=id, name="nightly", family="shops", members=(MemberDefinition(path="manager", work=work), *dependents)
    )
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=definition))
    flow = Managed(
        store, answer.flow_id, answer.flow_uid, ref_to_manager=ManagerRef(answer.flow_uid, MANAGER, 1, "host")
    )
    flow.go_on()
    if begins:
        flow.begun()
    return flow


def pushed_manager(database: Database, work: StepWork, id: str = "shops/nightly") -> Flow:  # noqa: A002
    """Push a flow with a manager, whom no host has taken yet."""
    member = MemberDefinition(path="manager", work=work)
    definition = FlowDefinition(id=id, name="nightly", family="shops", members=(member,))
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=definition))
    return Flow(store, answer.flow_id, answer.flow_uid)


def numbers(jobs: Iterable[Job | Waiting]) -> list[int]:
    return [job.number for job in jobs]


def reopened(flow: Flow, run: RunRecord) -> RunRecord:
    return flow.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, "again", datetime.now(UTC)))


def over(flow: Managed, reason: str, kind: EndKind = EndKind.COMPLETED) -> None:
    """Close the manager, and end its step and its flow."""
    flow.managers.close(flow.mine, reason, Effects(), 0)
    flow.end(flow.last("manager"), kind=kind)
    while not flow.go_on().is_empty:
        pass


def begun_again(flow: Managed) -> None:
    flow.go_on()
    flow.ref_to_manager = ManagerRef(flow.uid, MANAGER, flow.last("manager").attempt, "host")
    assert not flow.begun("child-2").is_closed


def counts(flow: Managed) -> Counts:
    return flow.store.manager_doors.statuses(flow.id)[0].counts
