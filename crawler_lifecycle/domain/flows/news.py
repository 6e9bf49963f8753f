"""News: whether a row that was read is older than what was observed since."""

from crawler_lifecycle.contract.flows.states import MemberState
from crawler_lifecycle.domain.flows.rows import MemberRow


def is_outdated(read: MemberRow, known: MemberRow) -> bool:
    """Return whether the row that was read is an earlier state of the known row."""
    return _age(read) < _age(known)


def _age(row: MemberRow) -> tuple[int, int, int, int]:
    """Return a key that grows while a member goes on; states that the rules derive from others count as none."""
    if row.state.is_unstarted or row.is_cancelled_by_dependency:
        progress = 0
    else:
        progress = 1 if row.state is MemberState.EXECUTING else 2
    return row.generation, row.attempt, row.end, progress
