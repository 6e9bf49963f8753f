"""Attempts of members for people. A crawl's attempt shows the end of its run."""

from typing import Any

from sqlalchemy import Connection, and_, select

from crawler_lifecycle.adapters.sql.flow_schema import flow_attempts
from crawler_lifecycle.adapters.sql.flow_sights import SIGHT_COLUMNS, run_sight
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.domain.flows.crawls import as_end
from crawler_lifecycle.ports import AttemptRecord

attempts, runs = flow_attempts.c, histories.c
OF_ATTEMPT = {column.name: column.label(f"attempt_{column.name}") for column in flow_attempts.c}


def attempt_records(connection: Connection, flow: int, flow_uid: str, number: int) -> list[AttemptRecord]:
    """Return the member's attempts, oldest first."""
    is_its_run = and_(
        runs.flow_uid == flow_uid, runs.flow_member == attempts.member, runs.flow_attempt == attempts.attempt
    )
    query = (
        select(*OF_ATTEMPT.values(), *SIGHT_COLUMNS, runs.id, runs.run_uid)
        .join_from(flow_attempts, histories, is_its_run, isouter=True)
        .where(attempts.flow == flow, attempts.member == number)
        .order_by(attempts.attempt)
    )
    return [_record(row) for row in connection.execute(query)]


def _record(row: Any) -> AttemptRecord:
    end = as_end(run_sight(row)) if row.id is not None and row.status.is_over else None
    return AttemptRecord(
        attempt=row.attempt_attempt,
        generation=row.attempt_generation,
        created_at=row.attempt_created_at,
        ended_at=row.attempt_ended_at if end is None else end.at,
        kind=row.attempt_end_kind if end is None else end.kind,
        outcome=row.attempt_outcome if end is None else end.outcome,
        reason=row.attempt_reason if end is None else end.reason,
        error=row.attempt_error,
        host=row.attempt_host,
        code_version=row.attempt_code_version,
        deaths=row.attempt_deaths,
        run_id=row.id,
        run_uid=row.run_uid,
    )
