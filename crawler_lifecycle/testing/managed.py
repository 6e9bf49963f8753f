"""A crawl manager's flow in its own database, in virtual time: runs are faked, and people's requests are real."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue
from sqlalchemy import Connection, bindparam, select, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.rules.messages import AttemptRef, ReadFlow
from crawler_lifecycle.managers.ports import ManagerRef, ManagerStart
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.manager_items import Job
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun, SupervisorExecution
from crawler_lifecycle.runs.store.manager_runs import tell_end

MANAGER = "manager"  # path for the flow's only member
HOST = "play"  # the host's token
FOR_EVER = timedelta(days=10_000)
OF_RUN = update(histories).where(histories.c.id == bindparam("of_run"))
A_STEP = timedelta(microseconds=1)  # between two readings of the clock: ends keep their order


class PlayClock:
    """Virtual time. Only the play's acts let time pass."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += A_STEP
        return self.now


class PlayedEnd(NamedTuple):
    """A faked run's end."""

    outcome: str
    is_failed: bool
    stats: Mapping[str, float]
    result: JsonValue


class ManagedFlow:
    """The flow after its host has begun the manager."""

    def __init__(self, name: str, arguments: Sequence[str], family: str, now: datetime) -> None:
        folder = tempfile.mkdtemp(prefix="manager-play-")
        shutil.copyfile(_template(), f"{folder}/ledger.db")
        self.clock = PlayClock(now)
        self.database = Database(f"sqlite:///{folder}/ledger.db", pool_size=5, clock=self.clock)
        self.store = SqlStore(self.database)
        self.close = weakref.finalize(self, _remove, self.database, folder)
        work = StepWork(function="authors:Manager", form=CallForm.MANAGER, arguments=list(arguments))
        definition = FlowDefinition(
            id=f"{family}/{name}", name=name, family=family, members=(MemberDefinition(path=MANAGER, work=work),)
        )
        answer = self.store.flow_doors.push(PushFlow(definition=definition))
        self.id, self.uid = answer.flow_id, answer.flow_uid
        self.ref = self._begun()

    def link_run(self, start: ManagerStart) -> Job:
        """Store a run as its workflow would, with its main job running."""
        entry = Crawler(name=start.request.crawler)
        run = self.store.runs.create(NewRun(start.request, entry, 1, start.job.key, first_execution_run_id=HOST))
        values = {"status": RunStatus.PROCESSING, "started_at": self.clock()}
        self.database.transact(lambda tx: tx.execute(OF_RUN.values(values), {"of_run": run.run_id}))
        return start.job.model_copy(update={"run_id": run.run_id, "run_uid": run.run_uid})

    def end_run(self, start: ManagerStart, end: PlayedEnd) -> None:
        """Write an end into the run and its attempt."""
        values = {
            "finished_at": self.clock(),
            "status": RunStatus.FAILED if end.is_failed else RunStatus.COMPLETED,
            "outcome": end.outcome,
            "stats": dict(end.stats),
            "result": end.result,
        }
        of_start = histories.c.workflow_id == start.job.key

        def write(tx: Connection) -> None:
            row = tx.execute(select(histories).where(of_start)).one()
            tx.execute(update(histories).where(of_start).values(values))
            tell_end(tx, row, values)

        self.database.transact(write)

    def on_record(self) -> tuple[dict[str, float], dict[str, JsonValue]]:
        """Return the manager's stats and state."""
        with self.database.read() as connection:
            row = connection.execute(select(managers.c.stats, managers.c.state)).one_or_none()
        return ({}, {}) if row is None else (row.stats, row.state or {})

    @property
    def items_door(self) -> int:
        """Return the number of the last door that added or renewed items."""
        with self.database.read() as connection:
            return connection.scalar(select(managers.c.items_door)) or 0

    def lines(self) -> list[str]:
        """Return the messages in the flow's timeline."""
        return [line.message for line in self.store.flow_records.lines(self.id, after=0, limit=10_000)]

    def _begun(self) -> ManagerRef:
        """Begin the manager's next attempt as a host does."""
        flow = self.store.flow_ledger.begin(self.uid, SupervisorExecution(f"flow-{self.uid}", "play", None))
        page = self.store.flow_ledger.read(ReadFlow(flow=flow, since=-1))
        (member,), _ = page.rows.unpacked()
        start = AttemptRef(number=member.number, generation=member.generation, attempt=member.attempt + 1)
        self.store.step_ledger.renew(HOST, FOR_EVER)
        begun = self.store.step_ledger.begin(flow, page.door, [start], HOST, HOST)
        assert begun.mine, "the manager's attempt is not free"
        return ManagerRef(self.uid, member.number, start.attempt, HOST)


@cache
def _template() -> Path:
    """Return a database with the schema and no rows, made once in a process."""
    folder = tempfile.mkdtemp(prefix="manager-play-")
    path = Path(folder) / "template.db"
    upgrade(f"sqlite:///{path}")
    weakref.finalize(PlayClock, shutil.rmtree, folder, ignore_errors=True)  # at the process's end
    return path


def _remove(database: Database, folder: str) -> None:
    database.close()
    shutil.rmtree(folder, ignore_errors=True)
