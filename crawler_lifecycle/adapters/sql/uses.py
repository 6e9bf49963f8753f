"""Sums for admission: the use by open runs, for each scope with limits.

A transaction that may change a run's use also marks the run (`mark`), without a wait: a mark is a new row. The
holder of the admission lock folds marks (`fold`): the holder counts marked runs again, and
adds the differences to their scopes' sums. A change and its mark are committed together, so sums cannot drift.
`run_uses` and `scope_uses` have a single writer at a time. Locks are taken in one order: admission, then a run's row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.adapters.sql.schema import (
    OWN_INSTALLATION,
    histories,
    history_labels,
    run_uses,
    scope_uses,
    task_histories,
    use_changes,
)
from crawler_lifecycle.adapters.sql.transactions import OPEN_STATUSES
from crawler_lifecycle.contract.limits import CRAWLER, INSTALLATION, LABEL, ScopeLimits
from crawler_lifecycle.contract.states import ALIVE, IN_CLUSTER, Intent, RunStatus, TaskStatus
from crawler_lifecycle.domain.admission import OpenRun, Usage, Use
from crawler_lifecycle.domain.naming import MAIN_TASK

runs, tasks, counted, sums, marks = histories.c, task_histories.c, run_uses.c, scope_uses.c, use_changes.c
FIELDS = [field.name for field in fields(Use)]
MARK = insert(use_changes)
MARKS = select(marks.id, marks.history_id).order_by(marks.id)
SUMS = select(scope_uses)
ADDED = update(scope_uses).where(sums.scope == bindparam("of_scope"))
ADDED = ADDED.values({sums[name]: sums[name] + bindparam(f"more_{name}") for name in [*FIELDS, "share_tasks"]})
COUNTED = select(run_uses).where(counted.history_id.in_(bindparam("run_ids", expanding=True)))
FORGOTTEN = delete(run_uses).where(counted.history_id.in_(bindparam("run_ids", expanding=True)))
FOLDED = delete(use_changes).where(marks.id.in_(bindparam("ids", expanding=True)))
LABELS = (
    select(history_labels)
    .where(history_labels.c.history_id.in_(bindparam("run_ids", expanding=True)))
    .order_by(history_labels.c.label)
)
IS_OPEN = and_(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)


@dataclass(frozen=True, slots=True)
class Change:
    """A run's counted use and present use. `run` has the scopes and the share."""

    run: OpenRun
    old: Use
    new: Use
    waits: bool = False
    waited: bool = False

    @property
    def differs(self) -> bool:
        return (self.old, self.waited) != (self.new, self.waits)

    @property
    def is_counted(self) -> bool:
        """Whether the run has a row in `run_uses`."""
        return self.waits or self.new != Use()

    @property
    def row(self) -> dict[str, int | bool]:
        return {"history_id": self.run.run_id, **asdict(self.new), "waits": self.waits}


def mark(connection: Connection, run_id: int) -> None:
    """Have the run counted again by the next holder of the admission lock."""
    connection.execute(MARK, {"history_id": run_id})


def fold(connection: Connection, limits: Mapping[str, ScopeLimits]) -> None:
    """Count the marked runs again. The caller holds the admission lock."""
    marked = connection.execute(MARKS).all()
    for page in pages(marked):
        run_ids = {row.history_id for row in page}
        changes = _changes(connection, limits, run_ids)
        _write(connection, changes)
        if gone := run_ids.difference(change.run.run_id for change in changes):
            connection.execute(FORGOTTEN, {"run_ids": list(gone)})
        connection.execute(FOLDED, {"ids": [row.id for row in page]})


def count_begun(connection: Connection, run: OpenRun, begun: OpenRun) -> None:
    """Count a run's first job at once, as `fold` would.

    The caller has locked admission and the run's row, in this order, and has folded since.
    """
    _write(connection, [Change(run, run.use, begun.use)])


def usage_on_record(connection: Connection) -> Usage:
    """Return the sums. A caller with the admission lock folds first."""
    usage = Usage()
    for row in connection.execute(SUMS):
        usage.scopes[row.scope] = Use(*(row._mapping[name] for name in FIELDS))
        usage.shares["" if row.scope == INSTALLATION else row.scope] = row.share_tasks
    return usage


def present_usage(connection: Connection, limits: Mapping[str, ScopeLimits]) -> Usage:
    """Return the sums for a reader: with the marked runs."""
    usage = usage_on_record(connection)
    marked = sorted({row.history_id for row in connection.execute(MARKS)})
    for page in pages(marked):
        for change in _changes(connection, limits, page):
            usage.add(change.run, change.new.plus(change.old, -1))
    return usage


def sum_up(connection: Connection, limits: Mapping[str, ScopeLimits]) -> bool:
    """Compute all sums from the counted runs, after a new scope or weight. Return whether a sum was different.

    The caller holds the admission lock and has folded.
    """
    usage = Usage()
    total = [func.coalesce(func.sum(counted[name]), 0).label(name) for name in FIELDS]
    usage.scopes[INSTALLATION] = Use(*map(int, connection.execute(select(*total)).one()))
    by_crawler = select(runs.crawler, *total).join_from(run_uses, histories, runs.id == counted.history_id)
    crawlers = [scope.removeprefix(CRAWLER) for scope in limits if scope.startswith(CRAWLER)]
    _add_groups(usage, CRAWLER, connection.execute(by_crawler.where(runs.crawler.in_(crawlers)).group_by(runs.crawler)))
    label = history_labels.c
    labelled = select(label.label, *total).join_from(run_uses, history_labels, label.history_id == counted.history_id)
    labels = [scope.removeprefix(LABEL) for scope in limits if scope.startswith(LABEL)]
    _add_groups(usage, LABEL, connection.execute(labelled.where(label.label.in_(labels)).group_by(label.label)))
    weighted = [name for name in labels if limits[LABEL + name].weight]
    first = select(label.history_id, func.min(label.label).label("share")).where(label.label.in_(weighted))
    share = first.group_by(label.history_id).subquery()
    shares = select(share.c.share, func.sum(counted.tasks)).join_from(
        share, run_uses, counted.history_id == share.c.history_id
    )
    for name, number in connection.execute(shares.group_by(share.c.share)):
        usage.shares[LABEL + name] = int(number)
    usage.shares[""] = usage.scopes[INSTALLATION].tasks - sum(usage.shares.values())
    wanted: dict[str, dict[str, int]] = {scope: _sums_of(usage, scope) for scope in limits}
    rows = {row.scope: tuple(row)[1:] for row in connection.execute(SUMS)}
    if rows == {scope: tuple(values.values()) for scope, values in wanted.items()}:
        return False
    connection.execute(delete(scope_uses))
    connection.execute(insert(scope_uses), [{"scope": scope, **values} for scope, values in wanted.items()])
    return True


def miscounted(connection: Connection, run_ids: Sequence[int]) -> list[int]:
    """Return runs with different counts in `run_uses` and in their rows, without marked runs."""
    changes = (change for page in pages(run_ids) for change in _changes(connection, {}, page))
    different = {change.run.run_id for change in changes if change.differs}
    return sorted(different - {row.history_id for row in connection.execute(MARKS)}) if different else []


def counted_without_run(connection: Connection) -> list[int]:
    """Return counted runs without an open row in our installation."""
    has_run = exists().where(runs.id == counted.history_id, IS_OPEN)
    return list(connection.scalars(select(counted.history_id).where(~has_run)))


def _add_groups(usage: Usage, kind: str, rows: Iterable[Any]) -> None:
    for name, *values in rows:
        usage.scopes[kind + name] = Use(*map(int, values))


def _sums_of(usage: Usage, scope: str) -> dict[str, int]:
    """Return values for the scope's row."""
    share = "" if scope == INSTALLATION else scope
    return {**asdict(usage.scopes[scope]), "share_tasks": usage.shares[share]}


def _changes(connection: Connection, limits: Mapping[str, ScopeLimits], run_ids: Collection[int]) -> list[Change]:
    """Return the runs' counted and present use, with their scopes under these limits."""
    chosen = {"run_ids": list(run_ids)}
    before = {row.history_id: row for row in connection.execute(COUNTED, chosen)}
    labels = defaultdict[int, list[str]](list)
    if any(scope.startswith(LABEL) for scope in limits):
        for run_id, label in connection.execute(LABELS, chosen):
            if LABEL + label in limits:
                labels[run_id].append(LABEL + label)
    return [_change(row, before.get(row.id), labels[row.id], limits) for row in connection.execute(PRESENT, chosen)]


def _change(row: Row[Any], before: Row[Any] | None, labels: list[str], limits: Mapping[str, ScopeLimits]) -> Change:
    run = OpenRun(
        run_id=row.id,
        scopes=scopes_of(row.crawler, labels, limits),
        share=share_of(labels, limits),
        is_admitted=row.admitted_at is not None,
        is_wanted=row.intent is Intent.RUN,
        max_parallel=row.max_parallel,
        main_is_alive=bool(row.main_alive),
        main_in_cluster=bool(row.main_in_cluster),
        children_in_cluster=int(row.children_in_cluster),
        children_queued=int(row.children_queued),
    )
    old = Use(*(before._mapping[name] for name in FIELDS)) if before else Use()
    new = run.use if row.is_open else Use()
    return Change(run, old, new, bool(row.waits), bool(before and before.waits))


def scopes_of(crawler: str, labels: Iterable[str], limits: Mapping[str, ScopeLimits]) -> tuple[str, ...]:
    """Return the run's scopes with limits. `labels`: scopes of its labels with limits."""
    of_crawler = [scope for scope in (CRAWLER + crawler,) if scope in limits]
    return (INSTALLATION, *of_crawler, *sorted(labels))


def share_of(labels: Iterable[str], limits: Mapping[str, ScopeLimits]) -> str:
    """Return the label with the weight for the run."""
    return min((label for label in labels if limits[label].weight), default="")


def _write(connection: Connection, changes: Iterable[Change]) -> None:
    """Write new uses, and add differences to sums."""
    differing = [change for change in changes if change.differs]
    if not differing:
        return
    connection.execute(FORGOTTEN, {"run_ids": [change.run.run_id for change in differing]})
    if rows := [change.row for change in differing if change.is_counted]:
        connection.execute(insert(run_uses), rows)
    usage = Usage()
    for change in differing:
        usage.add(change.run, change.new.plus(change.old, -1))
    shares = {share or INSTALLATION for share, number in usage.shares.items() if number}
    for scope in sorted({scope for scope, use in usage.scopes.items() if use != Use()} | shares):
        more = _sums_of(usage, scope)
        values = {"of_scope": scope, **{f"more_{name}": value for name, value in more.items()}}
        if not connection.execute(ADDED, values).rowcount:
            connection.execute(insert(scope_uses), {"scope": scope, **more})


def _present() -> Select[Any]:
    """Return the statement for present uses."""
    is_main, in_cluster = tasks.task == MAIN_TASK, tasks.status.in_(IN_CLUSTER)
    is_queued = tasks.status == TaskStatus.QUEUED
    # a run in PROCESSING is read until no task waits and no hold is left; before, only the main task waits
    is_processing = runs.status == RunStatus.PROCESSING
    waits = or_(
        and_(is_processing, or_(count_of(is_queued) > 0, runs.held_by.is_not(None))),
        and_(runs.admitted_at.is_not(None), count_of(and_(is_main, is_queued)) > 0),
    )
    return (
        select(
            runs.id, runs.crawler, runs.intent, runs.admitted_at, runs.max_parallel,
            case((IS_OPEN, 1), else_=0).label("is_open"),
            case((and_(IS_OPEN, waits), 1), else_=0).label("waits"),
            count_of(is_main).label("main_alive"),
            count_of(and_(is_main, in_cluster)).label("main_in_cluster"),
            count_of(and_(~is_main, in_cluster)).label("children_in_cluster"),
            count_of(and_(~is_main, is_queued)).label("children_queued"),
        )
        .join_from(histories, task_histories, and_(tasks.history_id == runs.id, tasks.status.in_(ALIVE)), isouter=True)
        .where(runs.id.in_(bindparam("run_ids", expanding=True)))
        .group_by(runs.id)
    )  # fmt: skip


def count_of(condition: ColumnElement[bool]) -> ColumnElement[int]:
    """Return the number of rows in a group with the condition."""
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


PRESENT = _present()
