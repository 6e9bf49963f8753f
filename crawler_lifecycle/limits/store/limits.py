"""The stored limits, and the line of runs without a permit.

A scope has caps, a weight and pauses, and is listed with the use by its open runs.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Row, and_, func, insert, or_, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories, history_labels, scope_limits
from crawler_lifecycle.database.transactions import OPEN_STATUSES, OnDatabase, reading, transaction
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.limits.rules import Use
from crawler_lifecycle.limits.store.admission import limits_on_record, lock_admission
from crawler_lifecycle.limits.store.uses import correct, miscounts, uses
from crawler_lifecycle.model.limits import CRAWLER, LABEL, LimitRecord, ScopeLimits, in_words
from crawler_lifecycle.model.records import Place, RunRecord
from crawler_lifecycle.model.states import Intent

runs = histories.c
RECENT_RUNS = 10_000
MOST_PLACES = 1000  # in the line
# the columns with the names of a kind of scope, and with the RunID beside a name
_NAMES: dict[str, Column[str]] = {CRAWLER: runs.crawler, LABEL: history_labels.c.label}
_RUN_IDS: dict[str, Column[int]] = {CRAWLER: runs.id, LABEL: history_labels.c.history_id}


def place_in_line(connection: Connection, run: RunRecord) -> Place | None:
    """Return the run's place among the runs that the same scope holds; None unless the run waits for its permit."""
    if run.held_by is None or run.admitted_at is not None or run.intent is not Intent.RUN or run.status.is_over:
        return None
    is_before = or_(runs.priority > run.priority, and_(runs.priority == run.priority, runs.id <= run.run_id))
    line = (
        select(runs.id)
        .with_hint(histories, "FORCE INDEX (ix_histories_held)", "mysql")
        .where(
            *(runs.held_by == run.held_by, runs.admitted_at.is_(None), runs.intent == Intent.RUN),
            *(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION, is_before),
        )
    )
    number = connection.scalar(select(func.count()).select_from(line.limit(MOST_PLACES + 1).subquery()))
    if not number:
        return None
    held = uses(connection, [run.held_by]).get(run.held_by, Use()).held
    return Place(number=number if number <= MOST_PLACES else None, length=max(held, number))


class SqlLimits(OnDatabase):
    """The port `limits.ports.Limits`. A change takes the lock of admission: who is admitted later knows the change."""

    def __init__(self, db: Database, most_tasks: int) -> None:
        super().__init__(db)
        self._most_tasks = most_tasks

    @reading
    def all(self, connection: Connection, also: str | None = None) -> list[LimitRecord]:
        by_scope = limits_on_record(connection, self._most_tasks)
        if also is not None:
            by_scope.setdefault(also, ScopeLimits(scope=also))
        used = uses(connection, by_scope)
        changes = {row.scope: row for row in connection.execute(select(scope_limits))}
        records = []
        for scope, limits in by_scope.items():
            use, change = used.get(scope, Use()), changes.get(scope)
            records.append(
                LimitRecord(
                    **limits.model_dump(),
                    changed_at=change.changed_at if change else None,
                    changed_by=change.changed_by if change else None,
                    runs_begun=use.runs,
                    tasks_in_cluster=use.tasks,
                    places_kept=max(0, use.places - use.tasks),
                    runs_held=use.held,
                )
            )
        return records

    @reading
    def pauses(self, connection: Connection) -> int:
        return connection.scalar(select(func.count()).where(scope_limits.c.paused_at.is_not(None))) or 0

    @transaction
    def change(self, tx: Connection, scope: str, values: Mapping[str, int | None], actor: str | None) -> None:
        self._write(tx, scope, values, actor)

    @transaction
    def pause(self, tx: Connection, scope: str, reason: str, actor: str | None) -> None:
        row = self._write(tx, scope, {"paused_reason": reason, "paused_by": actor}, actor)
        if row is None or row.paused_at is None:
            self._write(tx, scope, {"paused_at": self._db.clock()}, actor)

    @transaction
    def resume(self, tx: Connection, scope: str, actor: str | None) -> None:
        row = self._write(tx, scope, dict.fromkeys(("paused_at", "paused_by", "paused_reason")), actor)
        if row is None or row.paused_at is None:
            raise NotFound(f"{in_words(scope)} is not paused")

    def miscounted(self) -> dict[str, Use]:
        with self._db.snapshot() as connection:
            return miscounts(connection)

    @transaction
    def correct_sums(self, tx: Connection) -> None:
        lock_admission(tx)  # one correction at a time
        correct(tx, self.miscounted())

    @reading
    def is_known(self, connection: Connection, scope: str) -> bool:
        if connection.scalar(select(scope_limits.c.scope).where(is_text(scope_limits.c.scope, scope))) is not None:
            return True
        kind, _, name = scope.partition(":")
        column = _NAMES.get(f"{kind}:")
        return column is None or connection.scalar(select(column).where(is_text(column, name)).limit(1)) is not None

    @reading
    def known_names(self, connection: Connection, kind: str) -> set[str]:
        limited = connection.scalars(select(scope_limits.c.scope).where(scope_limits.c.scope.startswith(kind)))
        recent = _RUN_IDS[kind] > (connection.scalar(select(func.max(runs.id))) or 0) - RECENT_RUNS
        names = connection.scalars(select(_NAMES[kind]).where(recent).distinct())
        return {*(scope.removeprefix(kind) for scope in limited), *names}

    def _write(
        self, tx: Connection, scope: str, values: Mapping[str, datetime | str | int | None], actor: str | None
    ) -> Row[Any] | None:
        """Write the values of the scope. Return the row as it was; None without a row."""
        lock_admission(tx)
        former = tx.execute(select(scope_limits).where(scope_limits.c.scope == scope)).one_or_none()
        new = {**values, "changed_at": self._db.clock(), "changed_by": actor}
        if former is None:
            tx.execute(insert(scope_limits).values(scope=scope, **new))
        else:
            tx.execute(update(scope_limits).where(scope_limits.c.scope == scope).values(new))
        return former
