"""Reasons for stops: kept with the attempts under way until the supervisor stops their runs."""

from sqlalchemy import bindparam, update

from crawler_lifecycle.adapters.sql.flow_door import Door
from crawler_lifecycle.adapters.sql.flow_schema import flow_attempts
from crawler_lifecycle.adapters.sql.pages import pages
from crawler_lifecycle.domain.flows.cancelling import Effect

attempts = flow_attempts.c
KEEP_REASON = (
    update(flow_attempts)
    .where(
        attempts.flow == bindparam("of_flow"),
        attempts.member.in_(bindparam("numbers", expanding=True)),
        attempts.ended_at.is_(None),
    )
    .values(stop_reason=bindparam("note"))
)


def keep_reason(door: Door, effect: Effect, reason: str | None) -> None:
    """Keep the reason with the attempts under way for the cancelled members."""
    under_way = [row.number for row in effect.members if row.in_flight] if reason else []
    for numbers in pages(under_way):
        door.tx.execute(KEEP_REASON, {"of_flow": door.head.id, "numbers": list(numbers), "note": reason})
