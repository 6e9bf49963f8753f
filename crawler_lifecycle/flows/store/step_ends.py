"""Ends of steps: attempts, members and results, written in one transaction."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Column, Connection, insert, update

from crawler_lifecycle.database.flow_schema import flow_attempts, flow_results
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.database.transactions import transaction
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.ports.claims import AttemptKey, StepEnd
from crawler_lifecycle.flows.rules.ends import AttemptEnd, after_end
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.store.locks import OnFlows
from crawler_lifecycle.flows.store.reading import attempt_end, read_members
from crawler_lifecycle.flows.store.starts import read_attempts
from crawler_lifecycle.flows.store.writing import write_states
from crawler_lifecycle.model.flow_states import EndKind, MemberState

attempts = flow_attempts.c
KEY = [attempts.flow, attempts.member, attempts.attempt]
END_COLUMNS: list[Column[Any]] = [
    attempts.ended_at,
    attempts.end_kind,
    attempts.outcome,
    attempts.reason,
    attempts.error,
]
WRITE_ENDS = PagedStatement(
    [*KEY, *END_COLUMNS],
    lambda new: (
        update(flow_attempts)
        .where(attempts.attempt == new.attempt)
        .values(**{column.name: new[column.name] for column in END_COLUMNS}, claim_token=None)
    ),
)


class StepEnds(OnFlows):
    """The method in `flows.ports.claims.StepClaims` for ends."""

    @transaction
    def end(self, tx: Connection, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        numbered = sorted(self._numbered(tx, ends), key=lambda item: (item[0], item[1].start.number))
        on_record: dict[AttemptKey, AttemptEnd] = {}
        for flow, of_flow in groupby(numbered, key=lambda item: item[0]):
            on_record |= _end(tx, flow, [end for _, end in of_flow], token)
        return on_record

    def _numbered(self, tx: Connection, ends: Sequence[StepEnd]) -> list[tuple[int, StepEnd]]:
        """Return the ends with their flows' primary keys. Ends in flows that were pruned are left out."""
        numbered = []
        for end in ends:
            try:
                numbered.append((self.number(tx, end.flow_uid), end))
            except NotFound:
                continue
        return numbered


def _end(tx: Connection, flow: int, ends: Sequence[StepEnd], token: str) -> dict[AttemptKey, AttemptEnd]:
    """Write the ends in one flow: members first, since locks on members come before locks on attempts."""
    starts = [end.start for end in ends]
    rows = read_members(tx, flow, [start.number for start in starts], locked=True)
    known = read_attempts(tx, flow, starts, locked=True)
    on_record: dict[AttemptKey, AttemptEnd] = {}
    mine: list[StepEnd] = []
    for end in ends:
        attempt = known.get((end.start.number, end.start.attempt))
        if attempt is None or end.start.number not in rows:
            continue
        if attempt.ended_at is not None:
            on_record[_key(end)] = attempt_end(attempt)
        elif attempt.claim_token == token:
            on_record[_key(end)] = _as_end(end)
            mine.append(end)
    _write(tx, flow, {_key(end): end for end in mine}.values(), rows)
    return on_record


def _write(tx: Connection, flow: int, ends: Any, rows: Mapping[int, MemberRow]) -> None:
    pairs = [(end, rows[end.start.number], after_end(rows[end.start.number], _as_end(end))) for end in ends]
    write_states(tx, flow, [after for _, before, after in pairs if after is not before])
    _write_attempts(tx, flow, [end for end, _, _ in pairs])
    results = [_result(flow, end) for end, before, after in pairs if _has_result(end, before, after)]
    if results:
        tx.execute(insert(flow_results), results)


def _has_result(end: StepEnd, before: MemberRow, after: MemberRow) -> bool:
    """Return whether the end is the last end of its member.

    A function's result that comes after a cancel or a retry is dropped. A cancelled manager keeps its numbers.
    """
    if end.result is None or after is before:
        return False
    is_cancelled = after.state is MemberState.CANCELLED and end.kind is EndKind.CANCELLED
    return after.state is MemberState.COMPLETED or is_cancelled


def _result(flow: int, end: StepEnd) -> dict[str, Any]:
    text = end.result or ""
    key = {"flow": flow, "member": end.start.number, "generation": end.start.generation}
    return {**key, "attempt": end.start.attempt, "value": text, "size": len(text)}


def _write_attempts(tx: Connection, flow: int, ends: Sequence[StepEnd]) -> None:
    for page in pages(ends):
        rows = [
            (flow, end.start.number, end.start.attempt, end.at, end.kind, end.outcome, end.reason, end.error)
            for end in page
        ]
        WRITE_ENDS(tx, rows)


def _key(end: StepEnd) -> AttemptKey:
    return end.flow_uid, end.start.number, end.start.attempt


def _as_end(end: StepEnd) -> AttemptEnd:
    return AttemptEnd(end.start.number, end.start.attempt, end.kind, end.at, end.outcome, end.reason)
