"""Reads and deletions for retention.

Every deletion locks its rows and repeats the conditions from their choice, so a run stays after a reopening or a new
finding. A transaction removes whole runs, children first.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    text,
    update,
)

from crawler_lifecycle.audits.store.auditing import FINAL_STATUSES, NOT_EXPORTED
from crawler_lifecycle.database.flow_schema import flow_ends, flows
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, manager_keys, managers
from crawler_lifecycle.database.schema import (
    OWN_INSTALLATION,
    audit_findings,
    exports,
    histories,
    history_labels,
    history_logs,
    history_properties,
    removed_runs,
    retention_passes,
    run_tags,
    task_attempts,
    task_histories,
)
from crawler_lifecycle.database.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.errors import Conflict
from crawler_lifecycle.flows.store.locks import IN_ORDER
from crawler_lifecycle.flows.store.records import OPEN_STATES
from crawler_lifecycle.managers.store.rows import NOT_STARTED
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.states import ExportKind, ExportState
from crawler_lifecycle.retention.model import Archived, LastPass, OldRun, PassReport, Sizes

runs, findings, items, attempts, passes = (
    histories.c,
    audit_findings.c,
    manager_items.c,
    manager_attempts.c,
    retention_passes.c,
)
RUNS_IN_A_WINDOW = 500
CHILDREN = (history_labels, run_tags, history_properties, history_logs, task_attempts, task_histories, exports)
IS_OLD = and_(runs.status.in_(FINAL_STATUSES), runs.finished_at < bindparam("before"))
IS_OWN = runs.installation == OWN_INSTALLATION
HAS_FINDING = exists().where(findings.run_uid == runs.run_uid, findings.closed_at.is_(None))
OWES_EXPORT = or_(
    runs.export_state.in_(NOT_EXPORTED),
    exists().where(exports.c.history_id == runs.id, exports.c.state != ExportState.DONE),
)
# a manager copies the facts from its runs, and reads no run again after its reaction
HAS_REACTED = (
    exists()
    .where(
        attempts.flow == flows.c.id,
        attempts.member == runs.flow_member,
        attempts.attempt == runs.flow_attempt,
        attempts.ended_at.is_not(None),
        attempts.reacted_at.is_not(None),
    )
    .correlate(flows, histories)  # otherwise the subquery would have its own FROM histories
)
IS_IN_FLOW = exists().where(flows.c.uid == runs.flow_uid, not_(HAS_REACTED))
# without ELSE, NULL; a comparison with NULL in `flow_uid` is NULL, too
WINDOW = (
    select(
        *(runs.id, runs.run_uid, runs.tasks),
        *(IS_OWN.label("is_own"), IS_IN_FLOW.label("is_in_flow")),
        *(func.coalesce(OWES_EXPORT, literal_column("0")).label("owes_export"), HAS_FINDING.label("has_finding")),
    )
    .where(runs.id > bindparam("after"), runs.id < bindparam("bound"), IS_OLD)
    .order_by(runs.id)
    .limit(RUNS_IN_A_WINDOW)
)
MAY_GO = (
    select(runs.id, runs.run_uid)
    .where(
        runs.id.in_(bindparam("numbers", expanding=True)),
        IS_OLD,
        IS_OWN,
        not_(func.coalesce(OWES_EXPORT, literal_column("0"))),
        not_(HAS_FINDING),
        not_(IS_IN_FLOW),
    )
    .order_by(runs.id)
    .with_hint(histories, IN_ORDER, "mysql")
    .with_for_update(of=histories)
)
SETTLED_ITEMS = (ItemState.COMPLETED, ItemState.FAILED, ItemState.CANCELLED, ItemState.REFUSED)
OLD_ITEMS = (
    select(items.number, items.dedup_key)
    .where(
        items.flow == bindparam("of_flow"),
        items.manager == bindparam("of_manager"),
        items.number > bindparam("after"),
        items.state.in_(SETTLED_ITEMS),
        # the manager's next beginning lets these items wait again
        or_(items.problem.is_(None), items.problem != NOT_STARTED),
        items.changed_at < bindparam("before"),
        not_(
            exists().where(
                attempts.flow == items.flow,
                attempts.manager == items.manager,
                attempts.number == items.number,
                attempts.reacted_at.is_(None),
            )
        ),
        not_(exists().where(runs.flow_uid == bindparam("of_uid"), runs.flow_member == items.member)),
    )
    .order_by(items.number)
    .limit(RUNS_IN_A_WINDOW)
)
OPEN_MANAGERS = (
    select(managers.c.flow, managers.c.manager, flows.c.uid)
    .join_from(managers, flows, flows.c.id == managers.c.flow)
    .where(flows.c.state.in_(OPEN_STATES))
    .order_by(managers.c.flow, managers.c.manager)
)
OLD_FLOWS = (
    select(flows.c.uid)
    .where(
        flows.c.stopped_at < bindparam("before"),
        not_(exists().where(flow_ends.c.flow == flows.c.id, flow_ends.c.is_owed)),
        not_(exists().where(findings.subject == flows.c.uid, findings.closed_at.is_(None))),
    )
    .order_by(flows.c.stopped_at)
)
ARCHIVED = (
    select(runs.run_uid, exports.c.created_at, exports.c.event_id)
    .join_from(exports, histories, runs.id == exports.c.history_id)
    .where(
        exports.c.state == ExportState.DONE,
        exports.c.kind == ExportKind.FILES_READY,
        exports.c.location.is_not(None),
        exports.c.created_at >= bindparam("since"),
        or_(exports.c.created_at > bindparam("since"), exports.c.event_id > bindparam("after")),
        exports.c.created_at < bindparam("before"),
        IS_OLD,
        IS_OWN,
    )
    .order_by(exports.c.created_at, exports.c.event_id)
    .limit(RUNS_IN_A_WINDOW)
)
UNARCHIVED = select(func.min(exports.c.created_at)).where(exports.c.state.in_(NOT_EXPORTED))
Manager = tuple[int, int, str]  # the flow's key, the manager's number, the flow's uid


class RetentionStore(OnDatabase):
    # passes

    @transaction
    def _claimed(self, tx: Connection, holder: str, patience: timedelta) -> bool:
        now = self._db.clock()
        is_free = or_(passes.holder.is_(None), passes.holder == holder, passes.held_until < now)
        claim = update(retention_passes).where(is_free).values(holder=holder, held_until=now + patience)
        if tx.execute(claim).rowcount:
            return True
        if tx.scalar(select(passes.id)) is not None:
            return False
        tx.execute(insert(retention_passes), {"id": 1, "holder": holder, "held_until": now + patience})
        return True

    def claim(self, holder: str, patience: timedelta) -> bool:
        """Claim the passes for the holder, or prolong the holder's claim. Return whether the holder has the claim."""
        try:
            return self._claimed(holder, patience)
        except Conflict:  # another worker wrote the first claim
            return False

    @transaction
    def finish(self, tx: Connection, holder: str, report: PassReport) -> None:
        """Give up the claim, and store the report, unless another worker has the claim by now."""
        values: dict[str, Any] = {"holder": None, "held_until": None, "report": report.model_dump_json()}
        if report.problem is None and report.finished_at is not None:
            values["finished_at"] = report.finished_at
        tx.execute(update(retention_passes).where(passes.holder == holder).values(values))

    @reading
    def last(self, connection: Connection) -> LastPass:
        row = connection.execute(select(passes.holder, passes.finished_at, passes.report)).one_or_none()
        if row is None:
            return LastPass(None, None, None)
        report = None if row.report is None else PassReport.model_validate_json(row.report)
        return LastPass(row.holder, row.finished_at, report)

    # runs

    @reading
    def bound(self, connection: Connection, before: datetime) -> int:
        """Return a RunID: from here on, no run ended before the moment."""
        later = select(runs.id).where(runs.created_at >= before).order_by(runs.created_at, runs.id).limit(1)
        first_later = connection.scalar(later)
        return first_later or (connection.scalar(select(func.max(runs.id))) or 0) + 1

    @reading
    def window(self, connection: Connection, after: int, bound: int, before: datetime) -> list[OldRun]:
        """Return the next old runs by RunID."""
        rows = connection.execute(WINDOW, {"after": after, "bound": bound, "before": before})
        return [OldRun(row.id, row.run_uid, row.tasks, *map(bool, row[3:])) for row in rows]

    @transaction
    def remove(self, tx: Connection, run_ids: Collection[int], before: datetime) -> list[str]:
        """Remove the runs without a hold, with all their rows. Return the run_uids."""
        rows = tx.execute(MAY_GO, {"numbers": sorted(run_ids), "before": before}).all()
        if not rows:
            return []
        ids = [row.id for row in rows]
        for table in CHILDREN:
            tx.execute(delete(table).where(table.c.history_id.in_(ids)))
        today = self._db.clock().date()
        tx.execute(
            insert(removed_runs), [{"run_id": row.id, "run_uid": row.run_uid, "removed_on": today} for row in rows]
        )
        tx.execute(delete(histories).where(runs.id.in_(ids)))
        return [row.run_uid for row in rows]

    @reading
    def removed_among(self, connection: Connection, run_uids: Sequence[str]) -> set[str]:
        """Return the uids for removed runs."""
        query = select(removed_runs.c.run_uid).where(removed_runs.c.run_uid.in_(list(run_uids)))
        return set(connection.scalars(query))

    # flows and items

    @reading
    def old_flows(self, connection: Connection, before: datetime, limit: int) -> list[str]:
        """Return ended flows without a pending delivery and without a finding, oldest first."""
        return list(connection.scalars(OLD_FLOWS.limit(limit), {"before": before}))

    @reading
    def open_managers(self, connection: Connection) -> list[Manager]:
        return [(row.flow, row.manager, row.uid) for row in connection.execute(OPEN_MANAGERS)]

    @reading
    def old_items(self, connection: Connection, manager: Manager, after: int, before: datetime) -> list[int]:
        """Return the numbers for settled items without a run and without an attempt under way."""
        return [row.number for row in connection.execute(OLD_ITEMS, _items_key(manager, after, before))]

    @transaction
    def remove_items(self, tx: Connection, manager: Manager, after: int, before: datetime) -> list[int]:
        """Remove the next old items with their attempts. Their keys stay, so a repeat is still known."""
        flow, number, _ = manager
        this_manager = (managers.c.flow == flow, managers.c.manager == number)
        if tx.execute(select(managers.c.flow).where(*this_manager).with_for_update()).one_or_none() is None:
            return []
        rows = tx.execute(OLD_ITEMS, _items_key(manager, after, before)).all()
        numbers = [row.number for row in rows]
        keys = [row for row in rows if row.dedup_key is not None]
        if keys:
            of_manager = {"flow": flow, "manager": number}
            tx.execute(
                insert(manager_keys), [{**of_manager, "dedup_key": row.dedup_key, "number": row.number} for row in keys]
            )
        for table in (manager_attempts, manager_items):
            of_items = (table.c.flow == flow, table.c.manager == number, table.c.number.in_(numbers))
            tx.execute(delete(table).where(*of_items))
        return numbers

    # logs

    @reading
    def logs_since(self, connection: Connection) -> datetime | None:
        """Return the moment from `logs_are_removed`; None at the first pass."""
        return connection.scalar(select(passes.logs_until))

    @reading
    def archived(self, connection: Connection, since: datetime, after: str, before: datetime) -> list[Archived]:
        """Return the next archives by time, and by event_id within the same time."""
        rows = connection.execute(ARCHIVED, {"since": since, "after": after, "before": before})
        return [Archived(*row) for row in rows]

    @transaction
    def logs_are_removed(self, tx: Connection, until: datetime) -> None:
        """Store how far the logs are removed: not past a pending export."""
        pending = tx.scalar(UNARCHIVED)
        tx.execute(update(retention_passes).values(logs_until=until if pending is None else min(until, pending)))

    # sizes

    @reading
    def sizes(self, connection: Connection) -> Sizes:
        oldest = connection.scalar(select(func.min(runs.created_at)))
        if connection.dialect.name == "sqlite":
            pages, size = (connection.scalar(text(f"PRAGMA {name}")) or 0 for name in ("page_count", "page_size"))
            total = connection.scalar(select(func.count()).select_from(histories)) or 0
            return Sizes({"all": pages * size}, total, oldest)
        query = text(
            "SELECT table_name, table_rows, data_length + index_length FROM information_schema.tables "
            "WHERE table_schema = :name AND table_type = 'BASE TABLE'"
        )
        rows = connection.execute(query, {"name": connection.engine.url.database})
        tables = {name: (number or 0, int(size or 0)) for name, number, size in rows}
        return Sizes({name: size for name, (_, size) in tables.items()}, tables.get(histories.name, (0, 0))[0], oldest)


def _items_key(manager: Manager, after: int, before: datetime) -> dict[str, Any]:
    flow, number, uid = manager
    return {"of_flow": flow, "of_manager": number, "of_uid": uid, "after": after, "before": before}
