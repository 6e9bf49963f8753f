"""People's lists: runs and their counts, crawlers with their latest runs, and a run's tasks."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Row,
    Select,
    bindparam,
    case,
    func,
    literal,
    select,
    union_all,
)

from crawler_lifecycle.database.schema import OWN_INSTALLATION, histories, task_histories
from crawler_lifecycle.database.transactions import OPEN_STATUSES
from crawler_lifecycle.database.types import TimeBetween, UtcDateTime
from crawler_lifecycle.model.records import CrawlerRuns, RunCounts, RunEnd, RunFilter, RunSummary, TaskOrder
from crawler_lifecycle.model.states import ListedStatus, RunStatus, TaskStatus
from crawler_lifecycle.runs.ports import FoundRuns, WaitingRuns
from crawler_lifecycle.runs.rules.outcome import IN_A_ROW
from crawler_lifecycle.runs.rules.verdict import OBSTACLES
from crawler_lifecycle.runs.store.choosing import LISTED_STATUS, Candidates, Choice
from crawler_lifecycle.runs.store.reading import SUMMARY_COLUMNS, run_summary, task_counts, with_explanations

BY_RUN_ID = "FORCE INDEX (PRIMARY)"
runs = histories.c
MOST_ENDS, MOST_OF_A_CRAWLER = 10, 16  # ends in an answer, and runs that are read
MOST_OPEN, MOST_WAITING = 1_000, 500  # open runs that are counted, and runs that wait for one cause
MOST_PENDING = 1_000  # tasks in the search for obstacles, in the order of their runs
BRANCHES = 50  # crawlers in a statement, each with a branch
task = task_histories.c
WAITING_FOR = (
    select(
        *(runs.id, runs.waiting_since),
        (runs.status == RunStatus.PROCESSING).label("is_processing"),
        (runs.installation == OWN_INSTALLATION).label("is_own"),
    )
    .with_hint(histories, "FORCE INDEX (ix_histories_waiting)", "mysql")
    .where(
        runs.waiting_cause == bindparam("of_cause"),
        runs.waiting_since.is_not(None),
        runs.status.in_(OPEN_STATUSES),
    )
    .order_by(runs.waiting_since, runs.id)
    .limit(MOST_WAITING)
)
PENDING_TASKS = (
    select(task.history_id, task.task, task.cause, task.cause_since, task.message)
    .with_hint(task_histories, "FORCE INDEX (ix_task_histories_status)", "mysql")
    .where(task.status == TaskStatus.PENDING)
    .order_by(task.history_id, task.task)
    .limit(MOST_PENDING)
    .subquery()
)
OBSTRUCTED_TASKS = (
    select(PENDING_TASKS)
    .join(histories, runs.id == PENDING_TASKS.c.history_id)
    .where(
        PENDING_TASKS.c.cause.in_(sorted(OBSTACLES)),
        PENDING_TASKS.c.cause_since <= bindparam("since"),
        runs.status == RunStatus.PROCESSING,
        runs.installation == OWN_INSTALLATION,
    )
    .order_by(PENDING_TASKS.c.cause_since, PENDING_TASKS.c.task)
)
PLACES = {status: place for place, status in enumerate(TaskStatus)}  # of the statuses in a task's life


def found_runs(connection: Connection, chosen: RunFilter, limit: int, before: int | None) -> FoundRuns:
    """Return a page that may have fewer runs than the limit although more runs fit."""
    choice = Choice(connection, chosen, before)
    candidates = choice.candidates() if chosen.filters else choice.newest(limit + 1)
    if not candidates.run_ids:
        return FoundRuns([], candidates.rest)
    query = _among(select(*SUMMARY_COLUMNS), choice, candidates.run_ids).order_by(runs.id.desc()).limit(limit + 1)
    rows = connection.execute(query).all()
    rest = rows[limit - 1].id if len(rows) > limit else candidates.rest
    return FoundRuns(_summaries(connection, rows[:limit]), rest)


def _among(query: Select[Any], choice: Choice, run_ids: Collection[int]) -> Select[Any]:
    return query.with_hint(histories, BY_RUN_ID, "mysql").where(runs.id.in_(run_ids), *choice.conditions)


def page_of_runs(connection: Connection, chosen: RunFilter, limit: int, before: int | None) -> list[RunSummary]:
    """Return a page that has fewer runs than the limit only if no more runs fit."""
    page: list[RunSummary] = []
    while len(page) < limit:
        part = found_runs(connection, chosen, limit - len(page), before)
        page += part.runs
        before = part.rest
        if before is None:
            break
    return page


def summaries_of(connection: Connection, run_ids: Sequence[int]) -> list[RunSummary]:
    query = select(*SUMMARY_COLUMNS).where(runs.id.in_(run_ids)).order_by(runs.id)
    return _summaries(connection, connection.execute(query).all())


def _summaries(connection: Connection, rows: Sequence[Row[Any]]) -> list[RunSummary]:
    tasks = task_counts(connection, [row.id for row in rows])
    return with_explanations(connection, [run_summary(row, tasks[row.id]) for row in rows])


def counts_of_runs(connection: Connection, chosen: RunFilter) -> RunCounts:
    """Count the runs by their status in lists.

    If there are too many candidates to read, the runs of a status may be counted further back by the status.
    """
    choice = Choice(connection, chosen)
    shared = choice.candidates()
    statuses = [status for status in RunStatus if _listed(status, chosen)]
    by_status = {} if shared.rest is None else {status: choice.with_status(status) for status in statuses}
    parts: dict[tuple[RunStatus, ...], Candidates] = {
        (status,): candidates for status, candidates in by_status.items() if candidates.reach_further_than(shared)
    }
    parts[tuple(status for status in statuses if (status,) not in parts)] = shared
    counts, incomplete = dict[ListedStatus, int](), set[ListedStatus]()
    for part, candidates in parts.items():
        listed = [name for status in part for name in _listed(status, chosen)]
        sums = [func.sum(case({name.value: 1}, value=LISTED_STATUS, else_=0)) for name in listed]
        if listed:
            row = connection.execute(_among(select(*sums), choice, candidates.run_ids)).one()
            counts |= {name: int(number) for name, number in zip(listed, row, strict=True) if number}
        if candidates.rest is not None:
            incomplete.update(listed)
    return RunCounts(counts=counts, at_least=[status for status in ListedStatus if status in incomplete])


def _listed(status: RunStatus, chosen: RunFilter) -> list[ListedStatus]:
    """Return the chosen statuses in lists of runs with the status."""
    if chosen.status and status not in chosen.status:
        return []
    listed = [ListedStatus(status.value), *([ListedStatus.STOPPED] if status is RunStatus.FAILED else [])]
    return [status for status in listed if not chosen.listed or status in chosen.listed]


def waiting_runs(connection: Connection, causes: Collection[str], limit: int, before: datetime) -> WaitingRuns:
    """Return the installation's open runs that have waited for one of the causes since `before`, longest wait first.

    A run that has started gets such a cause only after its tasks have waited for long.
    """
    waiting, by_cause, has_more = list[tuple[datetime, int]](), Counter[str](), False
    for cause in sorted(causes):
        rows = connection.execute(WAITING_FOR, {"of_cause": cause}).all()
        has_more |= len(rows) == MOST_WAITING
        lasting = [row for row in rows if row.is_own and (row.is_processing or row.waiting_since <= before)]
        waiting += [(row.waiting_since, row.id) for row in lasting]
        by_cause[cause] += len(lasting)
    run_ids = [run_id for _, run_id in sorted(waiting)[:limit]]
    rows = connection.execute(select(*SUMMARY_COLUMNS).where(runs.id.in_(run_ids))).all()
    by_id, tasks = {row.id: row for row in rows}, task_counts(connection, run_ids)
    longest = [run_summary(by_id[run_id], tasks[run_id]) for run_id in run_ids if run_id in by_id]
    return WaitingRuns(by_cause, longest, has_more)


def obstructed_runs(connection: Connection, limit: int, before: datetime) -> WaitingRuns:
    """Return the runs that an obstacle has kept from a job's start since `before`, longest wait first.

    Before a run has started, its row has the cause of its main job; later its tasks have their causes.
    """
    waiting = waiting_runs(connection, OBSTACLES, limit, before)
    by_run = defaultdict[int, list[Row[Any]]](list)
    for row in connection.execute(OBSTRUCTED_TASKS, {"since": before}):
        by_run[row.history_id].append(row)
    summaries = {run.run_id: run for run in summaries_of(connection, list(by_run)[:limit])}
    started = [_obstructed(run, by_run[run_id]) for run_id, run in summaries.items()]
    longest = sorted([*waiting.longest, *started], key=lambda run: (run.waiting_since, run.run_id))[:limit]
    causes = Counter(waiting.by_cause) + Counter(rows[0].cause for rows in by_run.values())
    return WaitingRuns({**waiting.by_cause, **causes}, longest, waiting.has_more)


def _obstructed(run: RunSummary, rows: Sequence[Row[Any]]) -> RunSummary:
    """Return the run with the wait of its task that has waited longest."""
    first = rows[0]
    message = f"task {first.task}: {first.message}" + (f" (and {len(rows) - 1} more)" if len(rows) > 1 else "")
    wait = {"waiting_cause": first.cause, "waiting_since": first.cause_since, "waiting_message": message}
    return run.model_copy(update=wait)


def count_open(connection: Connection) -> int | None:
    """Count the installation's open runs. Return None if there are too many to count."""
    counted = select(runs.id).where(runs.status.in_(OPEN_STATUSES), runs.installation == OWN_INSTALLATION)
    counted = counted.with_hint(histories, "FORCE INDEX (ix_histories_status)", "mysql").limit(MOST_OPEN)
    number = connection.scalar(select(func.count()).select_from(counted.subquery())) or 0
    return number if number < MOST_OPEN else None


def runs_by_crawler(connection: Connection, crawlers: Sequence[str]) -> list[CrawlerRuns]:
    """Return the runs of these crawlers, in the same order, with crawlers without runs."""
    rows: list[Row[Any]] = []
    for start in range(0, len(crawlers), BRANCHES):
        names = crawlers[start : start + BRANCHES]
        rows += connection.execute(
            _statement(len(names), connection.dialect.name),
            {_parameter(place): name for place, name in enumerate(names)},
        )
    newest = defaultdict[str, list[Row[Any]]](list)
    for row in sorted(rows, key=lambda row: -row.id):
        newest[row.crawler].append(row)
    latest = {name: of_crawler[0].id for name, of_crawler in newest.items()}
    summaries = {run.run_id: run for run in summaries_of(connection, list(latest.values()))}
    return [
        CrawlerRuns(
            crawler=name,
            latest=summaries.get(latest.get(name, 0)),
            ends=[_end(row) for row in newest[name] if row.is_over][:MOST_ENDS],
        )
        for name in crawlers
    ]


def failing_crawlers(connection: Connection, since: datetime) -> list[CrawlerRuns]:
    """Return the crawlers whose last ends failed, one of them in a run created since then; stopped runs do not count.

    Crawlers without a failure among the newest candidates are left out.
    """
    choice = Choice(connection, RunFilter(listed=(ListedStatus.FAILED,), since=since, flows=True))
    names = connection.scalars(_among(select(runs.crawler).distinct(), choice, choice.candidates().run_ids)).all()
    failing = [ListedStatus.FAILED] * IN_A_ROW
    crawlers = runs_by_crawler(connection, sorted(names))
    return [crawler for crawler in crawlers if [end.status for end in crawler.ends[:IN_A_ROW]] == failing]


@cache
def _statement(crawlers: int, database: str) -> CompoundSelect[Any]:
    """Return the statement for the newest runs by crawler. Every branch follows the index.

    Kept, since building takes longer than executing.
    """
    is_over = runs.status.in_([status for status in RunStatus if status.is_over]).label("is_over")
    newest = select(runs.id, runs.crawler, LISTED_STATUS.label("listed"), runs.outcome, is_over)
    newest = newest.order_by(runs.id.desc()).limit(MOST_OF_A_CRAWLER)
    branches: list[Select[Any]] = [
        newest.where(runs.crawler == bindparam(_parameter(place), type_=runs.crawler.type)) for place in range(crawlers)
    ]
    if database == "sqlite":  # allows an order and a limit in a subquery, but not in a branch
        branches = [select(branch.subquery()) for branch in branches]
    return union_all(*branches)


def _parameter(place: int) -> str:
    return f"crawler_{place}"


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
