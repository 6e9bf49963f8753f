"""Notices, stored among their run's properties."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from crawler_lifecycle.adapters.sql.reading import explained
from crawler_lifecycle.adapters.sql.schema import history_properties
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, fence, keep_property, reading, transaction
from crawler_lifecycle.contract.notices import Notice, NoticeKind
from crawler_lifecycle.contract.records import Explanation, RunRecord
from crawler_lifecycle.contract.steps.run import RunRef

PREFIX = "notice:"
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
