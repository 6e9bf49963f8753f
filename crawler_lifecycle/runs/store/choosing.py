"""Chosen runs: conditions for the rows, and candidates from indexes.

Every filter has an index sorted by RunID. A list follows the index whose first MOST_READ runs reach furthest into the
past, and reads only these rows, however many runs are stored. A page may be short although older runs fit: the next
page continues there.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import islice
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    String,
    Table,
    and_,
    case,
    func,
    literal,
    not_,
    or_,
    select,
    type_coerce,
)

from crawler_lifecycle.base.requesters import BY_TOKEN
from crawler_lifecycle.database.flow_schema import flows as flow_table
from crawler_lifecycle.database.pages import first_numbers
from crawler_lifecycle.database.schema import histories, history_labels, run_tags
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import ListedStatus, RunStatus

runs = histories.c
MOST_READ = 500  # candidates for a page; for a list with a thousand numbers, MariaDB makes a temporary table
MOST_COUNTED = 200  # candidates with a status; half with a tag and a label, each of which is a further row
MOST_WAYS = 4  # indexes that a page tries
MOST_VALUES = 20  # in a filter with an index
NEIGHBOURS = 100  # runs around a time, whose RunIDs bound a list
CLOCKS_DIFFER = timedelta(hours=1)  # at most, between processes that create runs
HIGHEST = 1 << 62  # above every RunID
# the indexes for fields of a filter, which are columns, too
TEXTS = {"crawler": "ix_histories_crawler", "reason": "ix_histories_reason", "outcome": "ix_histories_outcome"}
WORDS = {"tag": run_tags.c.tag, "label": history_labels.c.label}
WAS_STOPPED = and_(runs.status == RunStatus.FAILED, runs.reason.in_(BY_A_STOP))
# as a text: the database's value would be translated as a `RunStatus`, which has no STOPPED
LISTED_STATUS = case((WAS_STOPPED, literal(ListedStatus.STOPPED.value)), else_=type_coerce(runs.status, String))
RunIds = Select[Any]


@dataclass(frozen=True, slots=True)
class Candidates:
    """All RunIDs that may fit a filter, down to the RunID `rest`."""

    run_ids: Collection[int]
    rest: int | None  # further candidates have lower RunIDs; None: there are none

    def reach_further_than(self, other: "Candidates") -> bool:
        return (self.rest or 0) < (other.rest or 0)


class Choice:
    """Chosen runs before a RunID."""

    def __init__(self, connection: Connection, chosen: RunFilter, before: int | None = None) -> None:
        self._connection = connection
        self._chosen = chosen
        self._before = before

    @cached_property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions for the chosen rows."""
        return list(self._conditions())

    def newest(self, most: int) -> Candidates:
        """Return the newest runs, without regard to the filters."""
        return self._newest([self._all], most)

    def candidates(self) -> Candidates:
        """Return the candidates from the index with the furthest reach into the past."""
        furthest: Candidates | None = None
        for way in islice(self._ways(), MOST_WAYS):
            candidates = self._newest(way, MOST_READ)
            if furthest is None or candidates.reach_further_than(furthest):
                furthest = candidates
            if furthest.rest is None:
                return furthest
        return furthest or self.newest(MOST_READ)

    def with_status(self, status: RunStatus) -> Candidates:
        words = sum(getattr(self._chosen, name) is not None for name in WORDS)
        return self._newest([self._of_status(status)], MOST_COUNTED // max(1, words))

    def _newest(self, way: Sequence[RunIds], most: int) -> Candidates:
        """Return the statements' newest candidates. All statements have the same share in the reads."""
        first, end = self._span
        ids = (statement.selected_columns[0] for statement in way)
        spans = [statement.where(run_id >= first, run_id < end) for statement, run_id in zip(way, ids, strict=True)]
        return Candidates(*first_numbers(self._connection, spans, most, descending=True))

    def _ways(self) -> Iterator[Sequence[RunIds]]:
        """Yield the statements for every filter with an index.

        All runs, without regard to filters, may reach further than several statements, or leave out runs in flows.
        """
        chosen = self._chosen
        for name, column in WORDS.items():
            if (text := getattr(chosen, name)) is not None:
                index = f"ix_{column.table.name}_{name}"
                yield [_by(index, column.table, is_text(column, text))]
        for name, index in TEXTS.items():
            if (text := getattr(chosen, name)) is not None:
                yield [_by(index, histories, is_text(runs[name], text))]
        for way in (self._of_requester(), self._found(), self._listed()):
            if way is not None and len(way) <= MOST_VALUES:
                yield way
        if chosen.status:
            yield [self._of_status(status) for status in set(chosen.status)]
        if chosen.trigger:
            yield [_by("ix_histories_trigger", histories, runs.trigger_kind == word) for word in set(chosen.trigger)]
        if self._of_flow or chosen.search or len({*chosen.status, *chosen.listed}) > 1 or len(chosen.trigger) > 1:
            yield [self._all]

    @property
    def _all(self) -> RunIds:
        return _by("ix_histories_own" if self._of_flow else "PRIMARY", histories, *self._of_flow)

    def _of_status(self, status: RunStatus) -> RunIds:
        index = "ix_histories_flow_status" if self._of_flow else "ix_histories_status"
        return _by(index, histories, *self._of_flow, runs.status == status)

    def _of_requester(self) -> list[RunIds] | None:
        requester = self._chosen.requested_by
        if requester is None:
            return None
        claims = self._values(runs.requested_by, _is_claim(requester))
        return [_by("ix_histories_requester", histories, runs.requested_by == name) for name in {requester, *claims}]

    def _found(self) -> list[RunIds] | None:
        if self._chosen.search is None:
            return None
        names = self._values(runs.crawler, _is_in_name(self._chosen.search))
        by_name = [_by("ix_histories_crawler", histories, runs.crawler == name) for name in names]
        run_id = self._chosen.run_id
        return by_name if run_id is None else [*by_name, _by("PRIMARY", histories, runs.id == run_id)]

    def _listed(self) -> list[RunIds] | None:
        if not self._chosen.listed:
            return None
        by_stop = [_by("ix_histories_reason", histories, runs.reason == reason) for reason in BY_A_STOP]
        others = [status for status in set(self._chosen.listed) if status is not ListedStatus.STOPPED]
        by_status = [self._of_status(RunStatus(status.value)) for status in others]
        return [*by_status, *by_stop] if ListedStatus.STOPPED in self._chosen.listed else by_status

    def _values(self, column: ColumnElement[Any], condition: ColumnElement[bool]) -> Sequence[str]:
        """Return the different values of the column, which the database takes from the index."""
        return self._connection.scalars(select(column).where(condition).distinct().limit(MOST_VALUES + 1)).all()

    @cached_property
    def _span(self) -> tuple[int, int]:
        """The first RunID in the filter's times, and the RunID after the last. RunIDs grow with time."""
        first, end = 0, self._before or HIGHEST
        if self._chosen.since is not None:
            later = select(runs.id).where(runs.created_at >= self._chosen.since - CLOCKS_DIFFER)
            nearest = later.order_by(runs.created_at).limit(NEIGHBOURS)
            first = min(self._connection.scalars(nearest), default=HIGHEST)
        if self._chosen.until is not None:
            earlier = select(runs.id).where(runs.created_at < self._chosen.until + CLOCKS_DIFFER)
            nearest = earlier.order_by(runs.created_at.desc()).limit(NEIGHBOURS)
            end = min(end, max(self._connection.scalars(nearest), default=0) + 1)
        return first, end

    @cached_property
    def _of_flow(self) -> list[ColumnElement[bool]]:
        chosen = self._chosen
        if chosen.flow is not None:
            # runs in a pruned flow are listed by the flow's uid
            uid = select(flow_table.c.uid).where(is_text(flow_table.c.flow_id, chosen.flow))
            return [runs.flow_uid == (self._connection.scalar(uid) or chosen.flow)]
        is_own = not chosen.flows and chosen.tag is None and chosen.label is None
        return [runs.flow_uid.is_(None)] if is_own else []

    def _conditions(self) -> Iterator[ColumnElement[bool]]:
        chosen = self._chosen
        yield from self._of_flow
        if chosen.status:
            yield runs.status.in_(chosen.status)
        if chosen.listed:
            yield or_(*(_has_listed(status) for status in chosen.listed))
        if chosen.trigger:
            yield runs.trigger_kind.in_(chosen.trigger)
        if chosen.since is not None:
            yield runs.created_at >= chosen.since
        if chosen.until is not None:
            yield runs.created_at < chosen.until
        for name, column in WORDS.items():
            if (text := getattr(chosen, name)) is not None:
                word = select(column).where(column.table.c.history_id == runs.id, is_text(column, text))
                yield word.scalar_subquery().is_not(None)  # MariaDB would read all runs with the word for an IN
        for name in TEXTS:
            if (text := getattr(chosen, name)) is not None:
                yield is_text(runs[name], text)
        if chosen.search is not None:
            in_name = _is_in_name(chosen.search)
            yield in_name if chosen.run_id is None else or_(in_name, runs.id == chosen.run_id)
        if chosen.requested_by is not None:
            yield or_(is_text(runs.requested_by, chosen.requested_by), _is_claim(chosen.requested_by))


def _by(index: str, table: Table, *conditions: ColumnElement[bool]) -> RunIds:
    """Return the statement for the RunIDs. Left alone, MariaDB often prefers an index without a bound for the reads."""
    run_id = runs.id if table is histories else table.c.history_id
    return select(run_id).with_hint(table, f"FORCE INDEX ({index})", "mysql").where(*conditions)


def _has_listed(status: ListedStatus) -> ColumnElement[bool]:
    if status is ListedStatus.STOPPED:
        return WAS_STOPPED
    has_status: ColumnElement[bool] = runs.status == RunStatus(status.value)
    if status is not ListedStatus.FAILED:
        return has_status
    # a row without a reason would be neither stopped nor not stopped
    return and_(has_status, or_(runs.reason.is_(None), not_(runs.reason.in_(BY_A_STOP))))


def _is_in_name(text: str) -> ColumnElement[bool]:
    return func.lower(runs.crawler).contains(text.lower(), autoescape=True)


def _is_claim(requester: str) -> ColumnElement[bool]:
    """Return the condition for a claimed name beside a token."""
    return runs.requested_by.startswith(f"{requester} {BY_TOKEN}", autoescape=True)
