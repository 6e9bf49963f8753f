"""Transactions on a manager's row. Locks are taken in one order: the flow, the manager, its items, their attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, union_all, update

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, manager_keys, managers
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.errors import Fenced
from crawler_lifecycle.flows.model.turns import FILTERED, Effects
from crawler_lifecycle.flows.store.locks import LOCKED, OnFlows, add_line, locking
from crawler_lifecycle.managers.ports import ManagerRef, Setbacks
from crawler_lifecycle.managers.store.rows import new_item, place_of_job
from crawler_lifecycle.model.manager_items import Item, ItemState
from crawler_lifecycle.runs.store.manager_runs import write_tags

items = manager_items.c
THIS_MANAGER = (managers.c.flow == bindparam("of_flow"), managers.c.manager == bindparam("of_manager"))
# these values may be large, and few methods need them
LARGE = ("state", "cursor", "output")
COLUMNS = [column for column in managers.c if column.name not in LARGE]
LOCK = select(*COLUMNS).where(*THIS_MANAGER).with_for_update()
READ = select(*COLUMNS).where(*THIS_MANAGER)
WRITE = update(managers).where(*THIS_MANAGER)
OF_MANAGER = (items.flow == bindparam("of_flow"), items.manager == bindparam("of_manager"))
OF_ATTEMPTS = (
    manager_attempts.c.flow == bindparam("of_flow"),
    manager_attempts.c.manager == bindparam("of_manager"),
)
JOB = [manager_attempts.c[name] for name in ("flow", "member", "attempt")]
JOBS_LOCKED = PagedStatement(
    JOB,
    lambda job: locking(
        select(*JOB, manager_attempts.c.request, manager_attempts.c.run_id)
        .where(manager_attempts.c.manager == bindparam("of_manager"), manager_attempts.c.attempt == job.attempt)
        .order_by(*JOB),
        manager_attempts,
    ),
)
WRITE_REQUESTS = PagedStatement(
    [*JOB, manager_attempts.c.request],
    lambda new: update(manager_attempts).where(manager_attempts.c.attempt == new.attempt).values(request=new.request),
)
KEYS: Any = bindparam("keys", expanding=True)
KNOWN_KEYS = union_all(
    select(items.dedup_key, items.number).where(*OF_MANAGER, items.dedup_key.in_(KEYS)),
    select(manager_keys.c.dedup_key, manager_keys.c.number).where(
        manager_keys.c.flow == bindparam("of_flow"),
        manager_keys.c.manager == bindparam("of_manager"),
        manager_keys.c.dedup_key.in_(KEYS),
    ),
)


@dataclass
class Managed:
    """A manager in a transaction. `save` writes the values."""

    tx: Connection
    row: Row[Any]
    flow_uid: str
    at: datetime
    head: Row[Any] | None = None  # the flow's row, if the row is locked
    values: dict[str, Any] = field(default_factory=dict)
    added: int = 0  # items so far

    @property
    def key(self) -> dict[str, int]:
        return {"flow": self.row.flow, "manager": self.row.manager}

    @property
    def bound(self) -> dict[str, int]:
        """The key for prepared statements."""
        return {"of_flow": self.row.flow, "of_manager": self.row.manager}

    def count(self, column: str, number: int = 1) -> None:
        """Add the number to the column."""
        self.values[column] = self.values.get(column, getattr(self.row, column)) + number

    def add_to_stat(self, name: str, increment: float) -> None:
        stats = self.values.setdefault("stats", dict(self.row.stats))
        stats[name] = stats.get(name, 0) + increment

    def take_setbacks(self, setbacks: Setbacks | None) -> None:
        if setbacks is not None:
            self.values["setbacks"] = dict(setbacks)

    def line(self, event: str, message: str) -> None:
        assert self.head is not None, "a line needs the lock on the flow"
        add_line(self.tx, self.row.flow, self.at, event, message, door="manager")

    def close(self, reason: str) -> None:
        self.values |= {"close_reason": reason, "closed_at": self.at, "problem": None, "setbacks": None}
        self.line("closed", f"the manager is closed: {reason}")

    def known(self, new: Sequence[Item]) -> dict[str, int]:
        """Return the numbers of items on record by key, for the keys of the new items."""
        keys = sorted({item.key for item in new if item.key is not None})
        rows = [tuple(row) for page in pages(keys) for row in self.tx.execute(KNOWN_KEYS, {**self.bound, "keys": page})]
        return dict(rows)

    def add(self, new: Sequence[Item]) -> list[int]:
        """Insert items, and return their numbers. The flow's row is locked, since it numbers all members."""
        assert self.head is not None, "new items need the lock on the flow"
        first = self.values.get("last_item", self.row.last_item) + 1
        member = self.head.last_member + 1 + self.added
        rows = [new_item(self.key, first + at, member + at, item, self.at) for at, item in enumerate(new)]
        for page in pages(rows):
            self.tx.execute(insert(manager_items), list(page))
        self.count("last_item", len(rows))
        self.count("refused", sum(row["state"] is ItemState.REFUSED for row in rows))
        self.added += len(rows)
        if filtered := sum(item.is_filtered for item in new):
            self.add_to_stat(FILTERED, filtered)
        this_flow = update(flows).where(flows.c.id == self.row.flow)
        self.tx.execute(this_flow.values(last_member=self.head.last_member + self.added))
        return [row["number"] for row in rows]

    def apply(self, effects: Effects) -> list[int]:
        """Put effects on record. Return the numbers of the added items; a known key has its item's number."""
        if effects.tags or effects.removed_tags:
            tags = [tag for tag in self.values.get("tags", self.row.tags) if tag not in effects.removed_tags]
            self.values["tags"] = list(dict.fromkeys([*tags, *effects.tags]))
        for name, increment in effects.stats.items():
            self.add_to_stat(name, increment)
        if effects.job_tags:
            self._write_tags(effects.job_tags)
        if effects.texts:
            self.values["stats"] = {**self.values.get("stats", self.row.stats), **effects.texts}
        if effects.state is not None:
            self.values["state"] = effects.state
        if effects.close_reason is not None:
            self.values["close_reason"] = effects.close_reason
        for message in effects.lines:
            self.line("manager", message)
        return self._add_unknown(effects.add) if effects.add else []

    def _write_tags(self, tags_by_key: Mapping[str, Sequence[str]]) -> None:
        """Write tags into the jobs' attempts, and into the lists' table. The runs' requests keep their first tags."""
        places = ((place_of_job(key), list(tags)) for key, tags in tags_by_key.items())
        tags_of = {place[1:]: tags for place, tags in places if place is not None and place[0] == self.flow_uid}
        for page in pages([(self.row.flow, *place) for place in tags_of]):
            rows = JOBS_LOCKED(self.tx, page, of_manager=self.row.manager).all()
            if not rows:
                continue
            requests = [row.request.model_copy(update={"tags": tags_of[row.member, row.attempt]}) for row in rows]
            WRITE_REQUESTS(self.tx, [(*row[:3], request) for row, request in zip(rows, requests, strict=True)])
            # a job without a run: its run takes the tags from the attempt
            write_tags(self.tx, {row.run_id: tags_of[row.member, row.attempt] for row in rows if row.run_id})

    def save(self) -> None:
        if self.values:
            self.tx.execute(WRITE.values(self.values), self.bound)

    def _add_unknown(self, added: Sequence[Item]) -> list[int]:
        numbers, new = unknown(added, self.known(added))
        inserted = self.add(new) if new else []
        return [number if number > 0 else inserted[-number] for number in numbers]


def unknown(added: Sequence[Item], known: dict[str, int]) -> tuple[list[int], list[Item]]:
    """Return the numbers of the items, and the items that are not on record.

    A number above 0 is the number of an item on record. Otherwise, its negative is the place among the new items.
    """
    new: list[Item] = []
    numbers: list[int] = []
    places = dict(known)
    for item in added:
        number = None if item.key is None else places.get(item.key)
        if number is None:
            number = -len(new)
            new.append(item)
            if item.key is not None:
                places[item.key] = number
        numbers.append(number)
    return numbers, new


class OnManagers(OnFlows):
    """Base class for the ledger of managers."""

    def mine(self, tx: Connection, ref: ManagerRef, effects: Sequence[Effects] = (), flow: Any = None) -> Managed:
        """Lock the manager for its host; raise Fenced for an earlier host.

        Lines and new items among the effects need the lock on the flow. `flow`: the statement for this lock.
        """
        if flow is None and any(wishes.add or wishes.lines for wishes in effects):
            flow = LOCKED
        head = None if flow is None else self.head(tx, ref.flow_uid, flow)
        return Managed(tx, self.fenced(tx, ref, LOCK), ref.flow_uid, self._db.clock(), head)

    def fenced(self, connection: Connection, ref: ManagerRef, statement: Any = READ) -> Row[Any]:
        """Return the manager's row; raise Fenced if another host has taken the manager over."""
        key = {"of_flow": self.number(connection, ref.flow_uid), "of_manager": ref.member}
        row = connection.execute(statement, key).one_or_none()
        if row is None or (row.token, row.attempt) != (ref.token, ref.attempt):
            raise Fenced(f"manager {ref.member} of flow {ref.flow_uid} has another host now")
        return row
