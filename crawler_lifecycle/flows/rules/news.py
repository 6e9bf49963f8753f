"""News: whether a row is older than the observations."""

from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.model.flow_states import MemberState


def is_outdated(read: MemberRow, known: MemberRow) -> bool:
    """Return whether the row is older than the known row."""
    return _age(read) < _age(known)


def _age(row: MemberRow) -> tuple[int, int, int, int]:
    """Return a key that grows while a member continues. States by dependencies do not count."""
    if row.state.is_unstarted or row.is_cancelled_by_dependency:
        progress = 0
    else:
        progress = 1 if row.state is MemberState.EXECUTING else 2
    return row.generation, row.attempt, row.end, progress
