"""People's lists: runs with their conditions and counts, crawlers with their latest runs, and a run's tasks."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Row,
    Select,
    String,
    and_,
    bindparam,
    case,
    func,
    literal,
    not_,
    or_,
    select,
    type_coerce,
    union_all,
)

from crawler_lifecycle.base.requesters import BY_TOKEN
from crawler_lifecycle.database.flow_schema import flows as flow_table
from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories, history_labels, run_tags, task_histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.database.types import TimeBetween, UtcDateTime, is_text
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.records import CrawlerRuns, RunEnd, RunFilter, RunSummary, TaskOrder
from crawler_lifecycle.model.states import ListedStatus, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import SaturatedRuns
from crawler_lifecycle.runs.rules.verdict import FULL, PATIENCE
from crawler_lifecycle.runs.store.reading import SUMMARY_COLUMNS, run_summary, task_counts, with_explanations

runs = histories.c
EXACT_TEXTS = ("crawler", "reason", "outcome")  # columns, and fields of a filter
LONGEST_NUMBER = 18  # digits; a longer number does not fit into the database
WAS_STOPPED = and_(runs.status == RunStatus.FAILED, runs.reason.in_(BY_A_STOP))
# as a text: the database's value would be translated as a `RunStatus`, which has no STOPPED
LISTED_STATUS = case((WAS_STOPPED, literal(ListedStatus.STOPPED.value)), else_=type_coerce(runs.status, String))
MOST_ENDS = 10
BRANCHES = 50  # crawlers in a statement, each with two branches
task = task_histories.c
PLACES = {status: place for place, status in enumerate(TaskStatus)}  # of the statuses in a task's life


def page_of_runs(connection: Connection, chosen: RunFilter, limit: int, before: int | None) -> list[RunSummary]:
    query = select(*SUMMARY_COLUMNS).where(*_conditions(connection, chosen)).order_by(runs.id.desc()).limit(limit)
    if before is not None:
        query = query.where(runs.id < before)
    if chosen.outcome is not None:  # otherwise MariaDB intersects two indexes with most of the rows, in place of one
        query = query.with_hint(histories, "IGNORE INDEX (ix_histories_own)", "mysql")
    return _summaries(connection, query)


def summaries_of(connection: Connection, run_ids: Sequence[int]) -> list[RunSummary]:
    return _summaries(connection, select(*SUMMARY_COLUMNS).where(runs.id.in_(run_ids)).order_by(runs.id))


def _summaries(connection: Connection, query: Select[Any]) -> list[RunSummary]:
    rows = connection.execute(query).all()
    tasks = task_counts(connection, [row.id for row in rows])
    return with_explanations(connection, [run_summary(row, tasks[row.id]) for row in rows])


def counts_of_runs(connection: Connection, chosen: RunFilter) -> dict[ListedStatus, int]:
    """Count the runs by their status in lists; a status without runs is left out."""
    query = select(LISTED_STATUS, func.count()).where(*_conditions(connection, chosen)).group_by(LISTED_STATUS)
    return {ListedStatus(status): count for status, count in connection.execute(query)}


def saturated_runs(connection: Connection, limit: int, now: datetime) -> SaturatedRuns:
    """Return the installation's open runs that have waited for room for long, the longest wait first.

    A run that has started gets such a cause only after its tasks have waited for long.
    """
    lasts = or_(runs.status == RunStatus.PROCESSING, runs.waiting_since <= now - PATIENCE)
    is_open = and_(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
    where = (is_open, runs.waiting_cause.in_(sorted(FULL)), lasts)
    total = connection.scalar(select(func.count()).select_from(histories).where(*where)) or 0
    longest = select(*SUMMARY_COLUMNS).where(*where).order_by(runs.waiting_since, runs.id).limit(limit)
    rows = connection.execute(longest).all()
    tasks = task_counts(connection, [row.id for row in rows])
    return SaturatedRuns(total, [run_summary(row, tasks[row.id]) for row in rows])


def _conditions(connection: Connection, chosen: RunFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the rows of the chosen runs."""
    if chosen.flow is not None:
        yield runs.flow_uid == _flow_uid(connection, chosen.flow)
    elif not chosen.flows and chosen.tag is None and chosen.label is None:
        yield runs.flow_uid.is_(None)
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
    if chosen.tag is not None:
        yield runs.id.in_(_runs_with(run_tags.c.history_id, run_tags.c.tag, chosen.tag))
    if chosen.label is not None:
        labels = history_labels.c
        yield runs.id.in_(_runs_with(labels.history_id, labels.label, chosen.label))
    if chosen.search is not None:
        yield _is_found(chosen.search)
    yield from _texts(chosen)


def _texts(chosen: RunFilter) -> Iterator[ColumnElement[bool]]:
    for name in EXACT_TEXTS:
        text = getattr(chosen, name)
        if text is not None:
            yield is_text(runs[name], text)
    if chosen.requested_by is not None:
        claimed = runs.requested_by.startswith(f"{chosen.requested_by} {BY_TOKEN}", autoescape=True)
        yield or_(is_text(runs.requested_by, chosen.requested_by), claimed)


def _has_listed(status: ListedStatus) -> ColumnElement[bool]:
    if status is ListedStatus.STOPPED:
        return WAS_STOPPED
    has_status: ColumnElement[bool] = runs.status == RunStatus(status.value)
    if status is not ListedStatus.FAILED:
        return has_status
    # a row without a reason would be neither stopped nor not stopped
    return and_(has_status, or_(runs.reason.is_(None), not_(runs.reason.in_(BY_A_STOP))))


def _is_found(text: str) -> ColumnElement[bool]:
    """Return the condition for runs with the text in the crawler's name, or with the text as RunID."""
    in_name = func.lower(runs.crawler).contains(text.lower(), autoescape=True)
    is_number = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
    return or_(in_name, runs.id == int(text)) if is_number else in_name


def _flow_uid(connection: Connection, flow: str) -> str:
    """Return the uid of the flow with the id. Runs of a flow that was pruned are listed by the flow's uid."""
    return connection.scalar(select(flow_table.c.uid).where(is_text(flow_table.c.flow_id, flow))) or flow


def _runs_with(run: Column[int], column: Column[str], text: str) -> Select[Any]:
    return select(run).where(is_text(column, text))


def runs_by_crawler(connection: Connection, crawlers: Sequence[str]) -> list[CrawlerRuns]:
    """Return the runs of these crawlers, in the same order, with crawlers without runs."""
    rows: list[Row[Any]] = []
    for start in range(0, len(crawlers), BRANCHES):
        names = crawlers[start : start + BRANCHES]
        rows += connection.execute(
            _statement(len(names)), {_parameter(place): name for place, name in enumerate(names)}
        )
    latest = {row.crawler: row.id for row in rows if row.is_latest}
    summaries = {run.run_id: run for run in summaries_of(connection, list(latest.values()))}
    ends = defaultdict[str, list[RunEnd]](list)
    for row in rows:
        if not row.is_latest:
            ends[row.crawler].append(_end(row))
    return [CrawlerRuns(crawler=name, latest=summaries.get(latest.get(name, 0)), ends=ends[name]) for name in crawlers]


@cache
def _statement(crawlers: int) -> CompoundSelect[Any]:
    """Return the statement for the latest run and the latest ends by crawler. Every branch follows the index.

    Kept, since building takes longer than executing.
    """
    newest = (runs.created_at.desc(), runs.id.desc())
    is_over = runs.status.in_([status for status in RunStatus if status.is_over])
    branches: list[Select[Any]] = []
    for place in range(crawlers):
        is_of_crawler = runs.crawler == bindparam(_parameter(place), type_=runs.crawler.type)
        latest = _columns(is_latest=True).where(is_of_crawler).order_by(*newest).limit(1)
        ends = _columns(is_latest=False).where(is_of_crawler, is_over).order_by(*newest).limit(MOST_ENDS)
        branches += [latest, ends]
    # SQLite allows an order and a limit in a subquery, but not in a branch
    return union_all(*(select(branch.subquery()) for branch in branches))


def _parameter(place: int) -> str:
    return f"crawler_{place}"


def _columns(*, is_latest: bool) -> Select[Any]:
    status = LISTED_STATUS.label("listed")
    return select(literal(is_latest).label("is_latest"), runs.id, runs.crawler, status, runs.outcome)


def _end(row: Row[Any]) -> RunEnd:
    return RunEnd(run_id=row.id, status=ListedStatus(row.listed), outcome=row.outcome)


def page_of_tasks(
    run_id: int, first: int, limit: int, status: TaskStatus | None, order: TaskOrder, now: datetime
) -> Select[Any]:
    """Return the statement for a page. By number `first` is a task's number, in other orders a place from 0 on."""
    query = select(task_histories).where(task.history_id == run_id).limit(limit)
    if status is not None:
        query = query.where(task.status == status)
    if order is TaskOrder.TASK:
        return query.where(task.task >= first).order_by(task.task)
    value = _value(order, now)
    directed = value.desc() if order.is_down else value.asc()
    return query.order_by(value.is_(None), directed, task.task).offset(first)


def _value(order: TaskOrder, now: datetime) -> ColumnElement[Any]:
    if order.key == TaskOrder.STATUS:
        return case(PLACES, value=task.status)
    if order.key == TaskOrder.DURATION:
        until = func.coalesce(task.finished_at, literal(now, UtcDateTime()))
        return TimeBetween(task.started_at, until)
    return task.exit_code if order.key == TaskOrder.EXIT_CODE else task.task
