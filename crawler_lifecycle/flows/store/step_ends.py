"""Steps' ends: an end and its result are a single insert. The supervisor writes the member."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, insert, update

from crawler_lifecycle.database.flow_schema import attempt_ends, flow_attempts
from crawler_lifecycle.database.pages import PagedStatement, pages
from crawler_lifecycle.database.transactions import transaction
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows.ports.claims import AttemptKey, StepEnd
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.store.locks import OnFlows
from crawler_lifecycle.flows.store.reading import ends_of
from crawler_lifecycle.flows.store.starts import read_attempts
from crawler_lifecycle.flows.store.writing import end_values

attempts = flow_attempts.c
KEY = [attempts.flow, attempts.member, attempts.attempt]
GIVE_BACK = PagedStatement(
    KEY, lambda new: update(flow_attempts).where(attempts.attempt == new.attempt).values(claim_token=None)
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
    """Insert the ends in one flow. The locks on the attempts keep other hosts' claims and ends off."""
    claimed = read_attempts(tx, flow, [end.start for end in ends], locked=True)
    earlier = ends_of(tx, flow, claimed.keys())
    on_record: dict[AttemptKey, AttemptEnd] = {}
    new: dict[AttemptKey, StepEnd] = {}
    for end in ends:
        key = (end.start.number, end.start.attempt)
        if key in earlier:
            on_record[end.flow_uid, *key] = earlier[key]
        elif key in claimed and claimed[key].claim_token == token:
            on_record[end.flow_uid, *key] = _as_end(end)
            new[end.flow_uid, *key] = end
    if new:
        tx.execute(insert(attempt_ends), [_values(flow, end) for end in new.values()])
    for page in pages(list(new.values())):
        GIVE_BACK(tx, [(flow, end.start.number, end.start.attempt) for end in page])
    return on_record


def _values(flow: int, end: StepEnd) -> dict[str, Any]:
    result = {"value": end.result, "size": len(end.result or "")}
    return end_values(flow, _as_end(end)) | {"error": end.error} | result


def _as_end(end: StepEnd) -> AttemptEnd:
    return AttemptEnd(end.start.number, end.start.attempt, end.kind, end.at, end.outcome, end.reason)
