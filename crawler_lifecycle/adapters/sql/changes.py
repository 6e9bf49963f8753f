"""Reads for the API's live views: runs changed lately, their summaries and notices."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, func, select

from crawler_lifecycle.adapters.sql.explaining import explained
from crawler_lifecycle.adapters.sql.notices import notices_of
from crawler_lifecycle.adapters.sql.reading import SUMMARY_COLUMNS, run_summary, task_counts
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.adapters.sql.transactions import OnDatabase, reading
from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import Changed, RunSummary

runs = histories.c


class LiveChanges(OnDatabase):
    @reading
    def latest_change(self, connection: Connection) -> datetime | None:
        latest: datetime | None = connection.scalar(select(func.max(runs.changed_at)))
        return latest

    @reading
    def changed_since(
        self, connection: Connection, moment: datetime | None, limit: int, only: int | None = None
    ) -> list[Changed]:
        query = select(runs.id, runs.changed_at).order_by(runs.changed_at.desc(), runs.id.desc()).limit(limit)
        if moment is not None:
            query = query.where(runs.changed_at >= moment)
        if only is not None:
            query = query.where(runs.id == only)
        return [Changed(run_id=number, changed_at=at) for number, at in connection.execute(query)]

    @reading
    def summaries(self, connection: Connection, run_ids: Sequence[int]) -> list[RunSummary]:
        rows = connection.execute(select(*SUMMARY_COLUMNS).where(runs.id.in_(run_ids)).order_by(runs.id)).all()
        tasks = task_counts(connection, run_ids)
        return explained(connection, [run_summary(row, tasks[row.id]) for row in rows])

    @reading
    def notices_of(self, connection: Connection, run_ids: Sequence[int]) -> list[Notice]:
        return notices_of(connection, run_ids)
