"""Latest run and latest ends by crawler, for lists of crawlers. The cost does not grow with the number of runs."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Row, Select, bindparam, literal, select, union_all

from crawler_lifecycle.adapters.sql.run_lists import LISTED_STATUS, summaries_of
from crawler_lifecycle.adapters.sql.schema import histories
from crawler_lifecycle.contract.records import CrawlerRuns, RunEnd
from crawler_lifecycle.contract.states import ListedStatus, RunStatus

runs = histories.c
MOST_ENDS = 10
BRANCHES = 50  # crawlers in a statement, each with two branches


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
