"""All pairs of acts on a crawl manager, its doors and its runs at once on MariaDB: no act deadlocks with another."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.flows.model.requests import AddItems, CancelItems, RetryItems
from crawler_lifecycle.flows.model.turns import Effects, Page, Start
from crawler_lifecycle.flows.ports.steps import StepEnd
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.managers.ports import ManagerStart
from crawler_lifecycle.model.flow_states import EndKind, MemberState
from crawler_lifecycle.model.manager_items import CodeProblem, Job, JobState, Verdict
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import SupervisorExecution
from tests.kit.data.contention import Act, contended_pairs
from tests.kit.data.managers import added, item, managed
from tests.kit.samples import few

NAMES = itertools.count()
AT_ONCE = 4  # crawls under way


class World:
    """A manager in the middle of its life, and acts on the manager. A method prepares its act."""

    def __init__(self, database: Database) -> None:
        self.flow = managed(database)
        self.store = self.flow.store
        self.revive()

    def revive(self) -> None:
        """Let items wait, crawls run, and ends have no reaction."""
        self.flow.hold("run")
        if self.flow.row("manager").state is MemberState.CANCELLED or self.flow.begun().is_closed:
            self.begin_anew()
        self.flow.offer(*(f"shop-{next(NAMES)}" for _ in range(AT_ONCE)))
        starts = self.flow.start_items(*self.flow.waiting(AT_ONCE)).started
        self.runs = [self.flow.run_of(start) for start in starts[:-1]]
        self.unstarted: list[ManagerStart] = list(starts[-1:])
        if self.runs:
            self.flow.close(self.runs[0], RunStatus.FAILED, "main_job_failed")

    def begin_anew(self) -> None:
        """Bring the manager back by a retry, which has an attempt of its own."""
        end = StepEnd(self.flow.uid, self.flow.last("manager"), EndKind.COMPLETED, datetime.now(UTC))
        self.store.step_ledger.end([end], "host")
        self.flow.go_on()
        self.flow.retry(completed=True)
        self.flow.go_on()
        self.flow.ref_to_manager = replace(self.flow.mine, attempt=self.flow.last("manager").attempt)
        assert not self.flow.begun(str(uuid4())).is_closed

    def offer(self) -> Act:
        page = Page(items=tuple(item(f"shop-{next(NAMES)}") for _ in range(3)), read=self.flow.begun_read + 3)
        return lambda: self.flow.managers.offer(self.flow.mine, page)

    def start(self) -> Act:
        chosen = [
            Start(number=w.number, attempt=w.attempt, generation=w.generation, request=w.request)
            for w in self.flow.waiting(3)
        ]
        return lambda: self.flow.managers.start(self.flow.mine, chosen)

    def react(self) -> Act:
        ended = self.flow.ended(2)

        def act() -> None:
            for job in ended:
                self.flow.react(job, Verdict.BAD, self._effects(), delay_seconds=0)

        return act

    def commit(self) -> Act:
        call, effects = str(uuid4()), self._effects()
        return lambda: self.flow.managers.commit(self.flow.mine, effects, call)

    def refuse(self) -> Act:
        jobs: list[Job] = [start.job for start in self.unstarted]

        def act() -> None:
            for job in jobs:
                self.flow.managers.refuse(self.flow.mine, job.number, job.attempt, Refusal("no such crawler"))

        return act

    def delay(self) -> Act:
        waiting = [waits.number for waits in self.flow.waiting(5)]
        return lambda: self.flow.managers.delay(self.flow.mine, waiting)

    def begin(self) -> Act:
        return lambda: self.flow.managers.begin(self.flow.mine, str(uuid4()))

    def close(self) -> Act:
        effects, items_door = self._effects(), self.flow.begun().items_door
        return lambda: self.flow.managers.close(self.flow.mine, "finished", effects, items_door)

    def pause(self) -> Act:
        problem = CodeProblem(phase="on_start", error=str(next(NAMES)))
        return lambda: self.flow.managers.pause(self.flow.mine, problem)

    def keep_output(self) -> Act:
        lines = [OutputLine(at=datetime.now(UTC), text=str(next(NAMES)))]
        return lambda: self.flow.managers.keep_output(self.flow.mine, lines)

    def list_jobs(self) -> Act:
        return lambda: self.flow.managers.jobs(self.flow.mine, JobState.FINISHED, limit=9)

    def add_items(self) -> Act:
        request = AddItems(key=str(uuid4()), items=(added(f"shop-{next(NAMES)}"), added(f"shop-{next(NAMES)}")))
        return lambda: self.store.manager_doors.add_items(self.flow.id, request)

    def retry_items(self) -> Act:
        return lambda: self.store.manager_doors.retry_items(self.flow.id, RetryItems())

    def cancel_items(self) -> Act:
        return lambda: self.store.manager_doors.cancel_items(self.flow.id, CancelItems())

    def hold(self) -> Act:
        hold = ("drain", "run")[next(NAMES) % 2]
        return lambda: self.flow.hold(hold)

    def leave(self) -> Act:
        return lambda: self.flow.cancel(terminate=False)

    def stop(self) -> Act:
        return lambda: (self.flow.cancel(), self.store.manager_doors.runs_under_way(self.flow.id))

    def make_run(self) -> Act:
        return lambda: [self.flow.run_of(start) for start in self.unstarted]

    def close_run(self) -> Act:
        return lambda: self.flow.close(self.runs[1])

    def reopen_run(self) -> Act:
        return lambda: [
            self.store.runs.reopen(run.run_id, SupervisorExecution(run.workflow_id, str(uuid4())))
            for run in self.runs[:1]
        ]

    def audit(self) -> Act:
        before = datetime.now(UTC) + timedelta(seconds=5)

        def act() -> None:
            for entry in self.store.manager_audits.doubtful(before, limit=9):
                self.store.manager_audits.copy_run(entry.flow_uid, entry.member, entry.attempt)

        return act

    def _effects(self) -> Effects:
        return Effects(add=(added(f"shop-{next(NAMES)}"),), stats={"hooks": 1}, lines=("reacted",), state={"at": "x"})


ACTS = [
    World.offer, World.start, World.react, World.commit, World.refuse, World.delay, World.begin, World.list_jobs,
    World.add_items, World.retry_items, World.cancel_items, World.hold, World.make_run, World.close_run,
    World.reopen_run, World.audit, World.close, World.pause, World.keep_output, World.leave, World.stop,
]  # fmt: skip


OFTEN_CHANGED = (World.add_items, World.close)


@pytest.mark.parametrize("first", few(ACTS, OFTEN_CHANGED), ids=lambda act: str(act.__name__))
@pytest.mark.long
def test_no_pair_of_a_managers_acts_deadlocks(wide_mariadb: Database, first: Callable[[World], Act]) -> None:
    assert contended_pairs(wide_mariadb, first, ACTS, World(wide_mariadb)) == []
