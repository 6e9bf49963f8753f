"""Exports and notices in the database.

Every event and every archive of an end has a row in `exports`. The run's row has the worst state among its exports.
Notices are stored as the run's properties.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Update, bindparam, case, func, insert, select, update

from crawler_lifecycle.database.schema import exports, histories, history_properties
from crawler_lifecycle.database.transactions import OnDatabase, fence, keep_property, missing_run, reading, transaction
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.model.naming import event_id
from crawler_lifecycle.model.notices import ExportEvent, Notice, NoticeKind
from crawler_lifecycle.model.reasons import ALL_SUCCEEDED
from crawler_lifecycle.model.records import Explanation, ExportRecord, RunRecord
from crawler_lifecycle.model.run_plan import ExportsOwed, RunRef
from crawler_lifecycle.model.states import ExportKind, ExportState
from crawler_lifecycle.runs.store.reading import export_record, with_explanations

export, runs, properties = exports.c, histories.c, history_properties.c
NOTICE_PREFIX = "notice:"  # property names for notices begin so


class Exports(OnDatabase):
    """The methods in `runs.ports.Runs` for exports."""

    @transaction
    def open_export(self, tx: Connection, run: RunRef, event: ExportEvent) -> ExportRecord:
        """Return the event's row; create the row, PENDING, unless the row exists."""
        fence(tx, run)
        this_export = select(exports).where(export.event_id == event.event_id)
        if (existing := tx.execute(this_export).one_or_none()) is not None:
            return export_record(existing)
        key = {"event_id": event.event_id, "history_id": run.run_id, "kind": event.kind}
        values = {"state": ExportState.PENDING, "event": event.model_dump_json(), "created_at": self._db.clock()}
        tx.execute(insert(exports), {**key, **values})
        # the run's export state stays: an export without a row counts as PENDING, too
        return export_record(tx.execute(this_export).one())

    @reading
    def export_event(self, connection: Connection, event_id: str) -> ExportEvent | None:
        """Return the stored event; None without such an export."""
        event = connection.scalar(select(export.event).where(export.event_id == event_id))
        return None if event is None else ExportEvent.model_validate_json(event)

    @reading
    def export_events(self, connection: Connection, event_ids: Sequence[str]) -> dict[str, ExportEvent]:
        """Return the stored events among these ids, by id."""
        stored = connection.execute(select(export.event_id, export.event).where(export.event_id.in_(event_ids)))
        return {event_id: ExportEvent.model_validate_json(event) for event_id, event in stored}

    @transaction
    def settle_export(
        self,
        tx: Connection,
        run: RunRef,
        event_id: str,
        state: ExportState,
        location: str | None,
        problem: str | None,
        event: ExportEvent | None = None,
    ) -> None:
        """Write the export's state; `event` replaces the stored event unless `event` is None."""
        fence(tx, run)
        finished_at = None if state is ExportState.PENDING else self._db.clock()
        this_export = (export.event_id == event_id, export.history_id == run.run_id)
        # only DONE replaces DONE: a late failure by an earlier try must not undo a finished export
        replaceable = tuple(ExportState) if state is ExportState.DONE else (ExportState.PENDING, ExportState.FAILED)
        values: dict[str, Any] = {"state": state, "location": location, "problem": problem, "finished_at": finished_at}
        if event is not None:
            values["event"] = event.model_dump_json()
        settled = tx.execute(SETTLED, {"of_event": event_id, "of_run": run.run_id, "of_states": replaceable, **values})
        if not settled.rowcount and tx.scalar(select(export.event_id).where(*this_export)) is None:
            raise NotFound(f"run {run.run_id} has no export {event_id}")
        archives = [ExportEvent.model_validate_json(text) for text in tx.scalars(ARCHIVES, {"of_run": run.run_id})]
        size = sum(archive.size or 0 for archive in archives) if archives else None
        tx.execute(WRITE_EXPORT_STATE, {"of_run": run.run_id, "archived_bytes": size})

    @reading
    def owed_exports(self, connection: Connection, run_id: int) -> ExportsOwed:
        """Return the run's ends whose event or archive is not DONE, latest end first."""
        run = connection.execute(select(runs.run_uid, runs.end_number).where(runs.id == run_id)).one_or_none()
        if run is None:
            raise missing_run(connection, run_id)
        done = select(export.event_id).where(export.history_id == run_id, export.state == ExportState.DONE)
        done_ids = set(connection.scalars(done))

        def owed_ends(kind: ExportKind) -> list[int]:
            latest_first = range(run.end_number, 0, -1)
            return [end for end in latest_first if event_id(run.run_uid, kind, end) not in done_ids]

        return ExportsOwed(events=owed_ends(ExportKind.RUN_ENDED), archives=owed_ends(ExportKind.FILES_READY))


ARCHIVES = select(export.event).where(
    export.history_id == bindparam("of_run"),
    export.kind == ExportKind.FILES_READY,
    export.state == ExportState.DONE,
)
SETTLED = update(exports).where(
    export.event_id == bindparam("of_event"),
    export.history_id == bindparam("of_run"),
    export.state.in_(bindparam("of_states", expanding=True)),
)


def _write_export_state() -> Update:
    """Return the statement to write a run's archived bytes and its export state: the worst state among its exports.

    An end has an export for every kind, and an export without a row counts as PENDING.
    """
    of_run = select(func.count()).where(export.history_id == bindparam("of_run"))
    failed = of_run.where(export.state == ExportState.FAILED).scalar_subquery()
    done = of_run.where(export.state == ExportState.DONE).scalar_subquery()
    are_missing = done < runs.end_number * len(ExportKind)
    worst = case((failed > 0, ExportState.FAILED), (are_missing, ExportState.PENDING), else_=ExportState.DONE)
    values = {"export_state": worst, "archived_bytes": bindparam("archived_bytes")}
    return update(histories).where(runs.id == bindparam("of_run")).values(values)


WRITE_EXPORT_STATE = _write_export_state()


class Notices(OnDatabase):
    """The methods in `runs.ports.Runs` for notices."""

    @transaction
    def keep_notice(self, tx: Connection, run: RunRef, notice: Notice) -> Notice:
        """Return the notice to send: the notice stored first under the id. A progress notice replaces the last one."""
        fence(tx, run)
        name = notice_property(notice.kind, notice.notice_id)
        stored = tx.scalar(select(properties.value).where(properties.history_id == run.run_id, properties.name == name))
        if stored is not None and notice.kind is not NoticeKind.PROGRESS:
            return Notice.model_validate_json(stored)
        keep_property(tx, run, name, notice.model_dump_json(), is_new=stored is None)
        return notice

    @reading
    def explanation(self, connection: Connection, run: RunRecord) -> Explanation | None:
        """Return why the run ended; None for an open run, and for a success."""
        if run.reason == ALL_SUCCEEDED:
            return None
        (explained_run,) = with_explanations(connection, [run])
        return explained_run.explanation


def notices_of(connection: Connection, run_ids: Sequence[int]) -> list[Notice]:
    """Return the runs' stored notices, sorted by time."""
    is_notice = properties.name.startswith(NOTICE_PREFIX, autoescape=True)
    stored = select(properties.value).where(properties.history_id.in_(run_ids), is_notice)
    notices = [Notice.model_validate_json(value) for value in connection.scalars(stored)]
    return sorted(notices, key=lambda notice: (notice.at, notice.notice_id))


def notice_property(kind: NoticeKind, notice_id: str = "") -> str:
    """Return the notice's property name, or without an id the beginning common to the kind's names.

    All progress notices in a run share their name: the last notice contains all earlier changes.
    """
    return NOTICE_PREFIX + kind if kind is NoticeKind.PROGRESS else f"{NOTICE_PREFIX}{kind}:{notice_id}"
