"""Exports on record: a row for every event and archive of an end, the run's export state, and notices as properties."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from crawler_lifecycle.adapters.sql.reading import explained, export_record
from crawler_lifecycle.adapters.sql.schema import exports, histories, history_properties
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, fence, keep_property, reading, transaction
from crawler_lifecycle.contract.notices import ExportEvent, ExportKind, Notice, NoticeKind
from crawler_lifecycle.contract.records import Explanation, ExportRecord, RunRecord
from crawler_lifecycle.contract.states import ExportState
from crawler_lifecycle.contract.steps.run import ExportsOwed, RunRef
from crawler_lifecycle.domain.naming import event_id
from crawler_lifecycle.errors import NotFound

export, runs = exports.c, histories.c


class Exports(OnDatabase):
    @transaction
    def open_export(self, tx: Connection, run: RunRef, event: ExportEvent) -> ExportRecord:
        fence(tx, run)
        mine = select(exports).where(export.event_id == event.event_id)
        if (known := tx.execute(mine).one_or_none()) is not None:
            return export_record(known)
        key = {"event_id": event.event_id, "history_id": run.run_id, "kind": event.kind}
        fresh = {"state": ExportState.PENDING, "event": event.model_dump_json(), "created_at": self._db.clock()}
        tx.execute(insert(exports).values(**key, **fresh))
        _write_export_state(tx, run.run_id)
        return export_record(tx.execute(mine).one())

    @reading
    def export_event(self, connection: Connection, event_id: str) -> ExportEvent | None:
        kept = connection.scalar(select(export.event).where(export.event_id == event_id))
        return None if kept is None else ExportEvent.model_validate_json(kept)

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
        fence(tx, run)
        at = None if state is ExportState.PENDING else self._db.clock()
        mine = (export.event_id == event_id, export.history_id == run.run_id)
        # only DONE replaces DONE: a late failure by an earlier try must not undo a finished export
        replaced = tuple(ExportState) if state is ExportState.DONE else (ExportState.PENDING, ExportState.FAILED)
        values: dict[str, Any] = {"state": state, "location": location, "problem": problem, "finished_at": at}
        if event is not None:
            values["event"] = event.model_dump_json()
        if tx.scalar(select(export.event_id).where(*mine)) is None:
            raise NotFound(f"run {run.run_id} has no export {event_id}")
        tx.execute(update(exports).where(*mine, export.state.in_(replaced)).values(values))
        _write_export_state(tx, run.run_id)

    @reading
    def owed_exports(self, connection: Connection, run_id: int) -> ExportsOwed:
        run = connection.execute(select(runs.run_uid, runs.end_number).where(runs.id == run_id)).one_or_none()
        if run is None:
            raise NotFound(f"there is no run {run_id}")
        done = select(export.event_id).where(export.history_id == run_id, export.state == ExportState.DONE)
        known = set(connection.scalars(done))

        def missing(kind: ExportKind) -> list[int]:
            return [end for end in range(run.end_number, 0, -1) if event_id(run.run_uid, kind, end) not in known]

        return ExportsOwed(events=missing(ExportKind.RUN_ENDED), archives=missing(ExportKind.FILES_READY))


def _write_export_state(connection: Connection, run_id: int) -> None:
    """Write the run's export state: the worst state among its exports. A missing export counts as PENDING."""
    states = list(connection.scalars(select(export.state).where(export.history_id == run_id)))
    ends = connection.scalar(select(histories.c.end_number).where(histories.c.id == run_id)) or 0
    states += [ExportState.PENDING] * (ends * len(ExportKind) - len(states))
    worst = next(state for state in (ExportState.FAILED, ExportState.PENDING, ExportState.DONE) if state in states)
    connection.execute(update(histories).where(histories.c.id == run_id).values(export_state=worst))


PREFIX = "notice:"  # for properties with notices
props = history_properties.c


class Notices(OnDatabase):
    @transaction
    def keep_notice(self, tx: Connection, run: RunRef, notice: Notice) -> Notice:
        fence(tx, run)
        name = name_of(notice.kind, notice.notice_id)
        kept = tx.scalar(select(props.value).where(props.history_id == run.run_id, props.name == name))
        if kept is not None and notice.kind is not NoticeKind.PROGRESS:
            return Notice.model_validate_json(kept)
        keep_property(tx, run, name, notice.model_dump_json())
        return notice

    @reading
    def explanation(self, connection: Connection, run: RunRecord) -> Explanation | None:
        (known,) = explained(connection, [run])
        return known.explanation


def notices_of(connection: Connection, run_ids: Sequence[int]) -> list[Notice]:
    kept = select(props.value).where(props.history_id.in_(run_ids), props.name.startswith(PREFIX, autoescape=True))
    notices = [Notice.model_validate_json(value) for value in connection.scalars(kept)]
    return sorted(notices, key=lambda notice: (notice.at, notice.notice_id))


def name_of(kind: NoticeKind, notice_id: str = "") -> str:
    """Return the property's name. Progress notices share a name: the last notice contains all earlier changes."""
    return PREFIX + kind if kind is NoticeKind.PROGRESS else f"{PREFIX}{kind}:{notice_id}"
