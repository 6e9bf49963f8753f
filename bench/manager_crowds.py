"""Crowds for the managers' benchmark: a great many ends at once, and many managers on a host. Runs are faked."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from sqlalchemy import Connection, func, insert, select

from bench.measuring import cpu_seconds
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.managers.store.life import beginning
from crawler_lifecycle.managers.store.rows import GENERATED
from crawler_lifecycle.model.manager_items import ItemState, Origin
from crawler_lifecycle.model.requests import RunParameters
from tests.kit.data.flows import Flow

MIB = 1024 * 1024
LOOK = 0.5
IN_A_STATEMENT = 1000


def put_ends_on_record(database: Database, flow: Flow, ends: int) -> None:
    """Store a manager. All its jobs have ended during an outage."""
    with database.transaction() as tx:
        number = tx.scalar(select(flows.c.id).where(flows.c.uid == flow.uid))
        tx.execute(flows.update().where(flows.c.id == number).values(last_member=ends))
        now = datetime.now(UTC) - timedelta(minutes=5)
        values = {"attempt": 0, "token": "", "child": "", **beginning(now), "incarnation": 0}
        values |= {"last_item": ends, "read_sets": ends, "is_exhausted": True}
        tx.execute(insert(managers), {"flow": number, "manager": 0, **values})
        for first in range(1, ends + 1, IN_A_STATEMENT):
            _insert(tx, {"flow": number, "manager": 0}, range(first, min(ends + 1, first + IN_A_STATEMENT)), now)


def _insert(tx: Connection, key: dict[str, Any], numbers: Sequence[int], now: datetime) -> None:
    request = RunParameters(crawler="nothing")
    both = {**key, "generation": 1, "attempt": 1, "tries": 1, "override": {}, "request": request}
    item = {**both, "origin": Origin.GENERATOR, "state": ItemState.RUNNING, "place": GENERATED, "changed_at": now}
    end = {"ended_at": now, "outcome": "finished", "is_failed": False, "run_uid": "faked"}
    tx.execute(insert(manager_items), [{**item, "number": number, "member": number} for number in numbers])
    tx.execute(
        insert(manager_attempts),
        [{**both, **end, "number": number, "member": number, "run_id": number, "began_at": now} for number in numbers],
    )


class Crowd:
    """A host with its objects: the largest memory so far, and the CPU."""

    def __init__(self, pid: int) -> None:
        self._host = psutil.Process(pid)
        self._former_cpu = 0.0  # of hosts before
        self.cpu = self.host_mib = self.objects_mib = self.own_mib = self.largest_mib = 0.0
        self.objects = 0

    def follow(self, pid: int) -> None:
        """Look at the next host from now on."""
        self._former_cpu, self._host = self.cpu, psutil.Process(pid)

    def look(self) -> None:
        try:
            children = self._host.children()
            self.host_mib = max(self.host_mib, self._host.memory_info().rss / MIB)
            own = sum(map(cpu_seconds, [self._host, *children])) + cpu_seconds(self._host, children=True)
            self.cpu = self._former_cpu + own
            if len(children) < self.objects:
                return
            memory = [child.memory_full_info() for child in children]
        except psutil.NoSuchProcess:
            return
        self.objects = len(children)
        self.objects_mib = max(self.objects_mib, sum(info.rss for info in memory) / MIB)
        self.own_mib = max(self.own_mib, sum(info.uss for info in memory) / MIB)
        self.largest_mib = max([self.largest_mib, *(info.rss / MIB for info in memory)])

    @property
    def memory(self) -> str:
        """Return the objects' memory in words."""
        shared = f"{self.objects_mib:,.0f} MiB, {self.own_mib:,.0f} MiB without shared pages"
        return f"{self.objects} objects at once have {shared}"

    def watch(self, is_over: Callable[[], bool], seconds: float) -> float:
        """Look until the end, or for so long. Return the seconds."""
        began = time.monotonic()
        while not is_over() and time.monotonic() - began < seconds:
            time.sleep(LOOK)
            self.look()
        return time.monotonic() - began


def closed(database: Database) -> tuple[int, int]:
    """Return how many managers and jobs have ended."""
    with database.engine.connect() as connection:
        query = select(func.count(managers.c.closed_at), func.coalesce(func.sum(managers.c.completed), 0))
        ended, jobs = connection.execute(query).one()
    return int(ended), int(jobs)
