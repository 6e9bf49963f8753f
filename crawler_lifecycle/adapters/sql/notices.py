"""What have people been told of a run? Kept among the run's properties, one for each notice."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from crawler_lifecycle.adapters.sql.fence import fence, keep_property
from crawler_lifecycle.adapters.sql.schema import history_properties
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, transaction
from crawler_lifecycle.contract.notices import Notice, NoticeKind
from crawler_lifecycle.contract.steps import RunRef

PREFIX = "notice:"
row = history_properties.c


class Notices(OnDatabase):
    @transaction
    def keep_notice(self, tx: Connection, run: RunRef, notice: Notice) -> Notice:
        fence(tx, run)
        name = name_of(notice.kind, notice.notice_id)
        kept = tx.scalar(select(row.value).where(row.history_id == run.run_id, row.name == name))
        if kept is not None and notice.kind is not NoticeKind.PROGRESS:
            return Notice.model_validate_json(kept)
        keep_property(tx, run, name, notice.model_dump_json())
        return notice


def notices_of(connection: Connection, run_ids: Sequence[int]) -> list[Notice]:
    kept = select(row.value).where(row.history_id.in_(run_ids), row.name.startswith(PREFIX, autoescape=True))
    found = [Notice.model_validate_json(value) for value in connection.scalars(kept)]
    return sorted(found, key=lambda notice: (notice.at, notice.notice_id))


def name_of(kind: NoticeKind, notice_id: str = "") -> str:
    """A run that changes a thousand times keeps its last progress, which tells all that was told before."""
    return PREFIX + kind if kind is NoticeKind.PROGRESS else f"{PREFIX}{kind}:{notice_id}"
