"""No list, count, search or page reads more than 5,000 rows of 500,000 runs, and none reads a table as a whole.

`RUNS=50000 make test-large` fills a smaller database.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, select, text, tuple_, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.schema import histories, task_histories
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.limits.rules import Use
from crawler_lifecycle.limits.store.limits import MOST_PLACES
from crawler_lifecycle.limits.store.uses import correct
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.reasons import IMAGE_PULL
from crawler_lifecycle.model.records import OPEN_RUNS, RunFilter
from crawler_lifecycle.model.states import ListedStatus, TaskStatus
from crawler_lifecycle.model.usage import UsageBy
from crawler_lifecycle.runs.rules.outcome import FAILURES_SHOWN
from crawler_lifecycle.runs.store.lists import MOST_OPEN, MOST_PENDING, MOST_WAITING
from tests.kit.data.databases import (
    RELAXED,
    WITHOUT_TLS,
    create_database,
    mariadb_is_installed,
    missing,
    running_mariadb,
)
from tests.kit.data.managers import Managed, managed
from tests.large.filling import CRAWLERS, NEVER, OPEN, RARE, YEARS, fill, fill_manager
from tests.large.filters import CASES, PAGE

pytestmark = [pytest.mark.large, pytest.mark.timeout(1800)]  # to fill the database takes minutes

ITEMS = 100_000  # of a manager
RUNS = int(os.environ.get("RUNS", "500000"))
MOST_ROWS = 5_000
LARGEST_PAGE = 500  # of the API
MOST_ITEMS = 1_000  # in a page of the API
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
EVER = NOW - YEARS * 366 * DAY
tasks = task_histories.c
BIG = {
    *("histories", "task_histories", "history_labels", "run_tags", "history_logs", "flows", "flow_members"),
    *("manager_items", "manager_attempts"),
}

NAMED = pytest.mark.parametrize("chosen", CASES.values(), ids=[" and ".join(names) for names in CASES])


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A large database on a server of its own. A single connection: its session counts the reads."""
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    with running_mariadb(*RELAXED, "--innodb-buffer-pool-size=1G") as port:
        url = f"{create_database(port, 'crawler')}?{WITHOUT_TLS}"
        upgrade(url)
        large = Database(url, pool_size=1)
        fill(large, RUNS, NOW)
        yield large
        large.close()


@pytest.fixture(scope="module")
def store(database: Database) -> SqlStore:
    return SqlStore(database)


class Reads:
    """Counts the rows that a call reads, and refuses plans that read a table as a whole."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._own = -self._rows() + self._rows()  # of the count itself

    def bounded(self, call: Callable[[], Any], most: int = MOST_ROWS) -> Any:
        statements = list[tuple[str, Any]]()

        def note(_conn: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
            if not statement.startswith("SET "):
                statements.append((statement, values))

        before = self._rows()
        event.listen(self._database.engine, "before_cursor_execute", note)
        try:
            answer = call()
        finally:
            event.remove(self._database.engine, "before_cursor_execute", note)
        rows = self._rows() - before - self._own
        with self._database.read() as connection:
            plans = {statement: _plan(connection, statement, values) for statement, values in statements}
        whole = [f"{plan}: {statement}" for statement, plan in plans.items() if any(map(_reads_all, plan))]
        assert not whole, "\n".join(whole)
        shown = "\n".join(f"{plan}: {statement[:500]}" for statement, plan in plans.items())
        assert rows <= most, f"{rows} rows\n{shown}"
        return answer

    def _rows(self) -> int:
        with self._database.read() as connection:
            return sum(int(row[1]) for row in connection.execute(text("SHOW SESSION STATUS LIKE 'Handler_read%'")))


def _plan(connection: Connection, statement: str, values: Any) -> list[tuple[str, ...]]:
    rows = connection.exec_driver_sql(f"EXPLAIN {statement}", values)
    return [(str(row.table), str(row.type), str(row.key), str(row.Extra)) for row in rows]


def _reads_all(step: tuple[str, ...]) -> bool:
    table, kind, _, _ = step
    return table in BIG and kind == "ALL"


@pytest.fixture(scope="module")
def reads(database: Database) -> Reads:
    return Reads(database)


def test_the_database_is_large(database: Database) -> None:
    with database.read() as connection:
        for table, rows in (("histories", RUNS), ("task_histories", 4 * RUNS)):
            assert connection.scalar(text(f"SELECT COUNT(*) FROM {table}")) == rows


def test_a_whole_table_is_noticed(database: Database, reads: Reads) -> None:
    def read() -> None:
        with database.read() as connection:
            connection.execute(select(histories.c.id).where(histories.c.tasks == 7)).all()

    with pytest.raises(AssertionError, match="ALL"):
        reads.bounded(read)


@NAMED
def test_lists(store: SqlStore, reads: Reads, chosen: dict[str, Any]) -> None:
    """As the page asks, further back, deep, and with the runs of flows."""
    shown = RunFilter(**chosen).in_window(NOW)
    ever = RunFilter(**chosen, since=EVER)
    with_flows = ever.model_copy(update={"flows": True})
    for runs, before in ((shown, None), (ever, None), (ever, RUNS // 3), (with_flows, RUNS // 5)):
        page = reads.bounded(partial(store.records.search, runs, limit=PAGE, before=before))
        assert len(page.runs) <= PAGE
        assert page.rest is None or page.rest < (before or RUNS + 1)


@NAMED
def test_counts(store: SqlStore, reads: Reads, chosen: dict[str, Any]) -> None:
    for runs in (RunFilter(**chosen).in_window(NOW), RunFilter(**chosen, since=EVER, flows=True)):
        counts = reads.bounded(partial(store.records.counts, runs))
        assert counts.at_least or sum(counts.counts.values()) == len(store.records.page(runs, limit=RUNS))


def test_lists_without_filters(store: SqlStore, reads: Reads) -> None:
    a_day = {"since": NOW - 400 * DAY, "until": NOW - 399 * DAY}
    for chosen in (RunFilter(), RunFilter(flows=True), RunFilter(since=NOW - DAY)):
        for before in (None, RUNS // 3, RUNS // 100):
            reads.bounded(partial(store.records.search, chosen, limit=PAGE, before=before))
        reads.bounded(partial(store.records.counts, chosen))
    assert reads.bounded(partial(store.records.search, RunFilter(**a_day, flows=True), limit=PAGE)).runs
    assert reads.bounded(partial(store.records.counts, RunFilter(**a_day))).at_least == []
    assert len(reads.bounded(partial(store.records.search, RunFilter(), limit=LARGEST_PAGE)).runs) == LARGEST_PAGE


def test_the_runs_of_a_flow(store: SqlStore, reads: Reads) -> None:
    assert reads.bounded(partial(store.records.search, RunFilter(flow="flow-10"), limit=PAGE)).rest is None
    assert reads.bounded(partial(store.records.counts, RunFilter(flow="flow-10"))).at_least == []


def test_crawlers_with_their_runs(store: SqlStore, reads: Reads) -> None:
    names = [f"{('Shop', 'news', 'maps')[number % 3]}-{number:03}" for number in range(CRAWLERS)]
    crawlers = reads.bounded(partial(store.records.by_crawler, names))
    assert all(crawler.latest for crawler in crawlers)


def test_a_run_with_its_tasks(store: SqlStore, reads: Reads) -> None:
    for run_id in (1, RUNS // 2, RUNS):
        reads.bounded(partial(store.records.overview, run_id), 100)
        reads.bounded(partial(store.records.tasks, run_id, first=0, limit=100), 100)


def test_changes(store: SqlStore, reads: Reads) -> None:
    latest = reads.bounded(store.records.latest_change, 10)
    for flows in (True, False):
        for moment in (None, latest, NOW - DAY):
            reads.bounded(partial(store.records.changed_since, moment, 100, flows=flows))
    reads.bounded(partial(store.records.changed_since, NOW - DAY, 100, 7), 10)


def test_what_needs_attention(store: SqlStore, reads: Reads) -> None:
    """The counts at the top of every view, and those of `crawlctl status`."""
    failed = RunFilter(listed=(ListedStatus.FAILED,), since=NOW - FAILURES_SHOWN, flows=True)
    for read in (
        partial(store.records.counts, failed),
        partial(store.records.saturated, 50),
        partial(store.records.obstructed, 50),
        store.records.failing_crawlers,
        partial(store.flow_records.awaiting_approval, limit=10),
        partial(store.flow_records.without_host, NOW - HOST_PATIENCE, limit=10),
        partial(store.flow_records.with_failed_items, NOW - FAILURES_SHOWN, limit=10),
        partial(store.findings.overview, audits=0, findings=0),
        store.records.count_open,
        store.limits.all,
        store.limits.pauses,
    ):
        reads.bounded(read)


def test_many_tasks_that_cannot_start(store: SqlStore, reads: Reads, database: Database) -> None:
    with database.transaction() as tx:
        queued = select(tasks.history_id, tasks.task).where(tasks.status == TaskStatus.QUEUED).limit(3 * MOST_PENDING)
        keys = tx.execute(queued).all()
        chosen = update(task_histories).where(tuple_(tasks.history_id, tasks.task).in_(keys))
        tx.execute(chosen.values(status=TaskStatus.PENDING, cause=IMAGE_PULL, cause_since=NOW - DAY))
    obstructed = reads.bounded(partial(store.records.obstructed, 50))
    assert (obstructed.total > 50, len(obstructed.longest)) == (True, 50)
    with database.transaction() as tx:
        tx.execute(chosen.values(status=TaskStatus.QUEUED, cause=None, cause_since=None))


def test_a_long_line(store: SqlStore, reads: Reads, database: Database) -> None:
    """Sums count the line. A run's place is counted among the first thousand."""
    runs = histories.c
    with database.transaction() as tx:
        keys = tx.scalars(select(runs.id).where(runs.status.in_(OPEN_RUNS.status)).limit(MOST_ROWS)).all()
        chosen = update(histories).where(runs.id.in_(keys))
        tx.execute(chosen.values(held_by=INSTALLATION, admitted_at=None))
        correct(tx, {INSTALLATION: Use(held=len(keys))})
    assert reads.bounded(store.limits.all, 100)[0].runs_held == len(keys)
    for run_id, number, most in ((min(keys), 1, 100), (max(keys), None, 2 * MOST_PLACES + 100)):
        place = reads.bounded(partial(store.records.overview, run_id), most).place
        assert (place.number, place.length) == (number, len(keys))
    with database.transaction() as tx:
        tx.execute(chosen.values(held_by=None, admitted_at=runs.created_at))
        correct(tx, {INSTALLATION: Use(held=-len(keys))})


@pytest.mark.skipif(RUNS < 500_000, reason="a smaller database has too few open runs")
def test_more_open_runs_than_are_counted(store: SqlStore, reads: Reads) -> None:
    assert RUNS // OPEN // 2 > MOST_OPEN
    assert reads.bounded(store.records.count_open) is None
    saturated = reads.bounded(partial(store.records.saturated, 50))
    assert (saturated.total, len(saturated.longest), saturated.has_more) == (MOST_WAITING, 50, True)


@pytest.mark.parametrize("by", UsageBy)
@pytest.mark.parametrize("since", [NOW - DAY, NOW - 400 * DAY], ids=["today", "long ago"])
def test_usage(store: SqlStore, reads: Reads, since: datetime, by: UsageBy) -> None:
    """The sums of a day read the day's runs, whenever it was: twice, with a label, a flow or a tenant of each."""
    usage = reads.bounded(partial(store.records.usage, by, since, since + DAY))
    assert usage.total.runs > RUNS // (YEARS * 365) // 3


@pytest.mark.parametrize("chosen", [
    *({"states": [state]} for state in FlowState),
    *({"search": search} for search in ("nightly-7", "FLOW-12", NEVER)),
    *({"family": family} for family in ("family-7", NEVER)),
    {}, {"in_need": True}, {"states": [FlowState.DISCARDED], "search": NEVER}, {"family": "family-7", "search": NEVER},
], ids=str)  # fmt: skip
def test_flows(store: SqlStore, reads: Reads, chosen: dict[str, Any]) -> None:
    records = store.flow_records
    for before in (None, records.uid_of("flow-160")):
        end = reads.bounded(partial(records.end_of_search, before), 2_000) if "search" in chosen else None
        reads.bounded(partial(records.page, **chosen, limit=PAGE, before=before, down_to=end))


@pytest.fixture(scope="module")
def shop(database: Database) -> Managed:
    flow = managed(database, "shop")
    with database.read() as connection:
        row = connection.execute(select(managers.c.flow, managers.c.manager)).one()
    fill_manager(database, row.flow, row.manager, ITEMS, NOW)
    return flow


STATES: tuple[dict[str, Any], ...] = ({}, *({"states": (state,)} for state in ItemState), {"states": tuple(ItemState)})
OUTCOMES: tuple[dict[str, Any], ...] = ({}, *({"outcome": word} for word in ("finished", "banned", NEVER)))
WORDS: tuple[dict[str, Any], ...] = ({}, *({"tag": word} for word in ("night", "rare", NEVER)))


@pytest.mark.parametrize("chosen", [
    {"numbers": (7, ITEMS // 2, ITEMS)}, {"states": (ItemState.FAILED, ItemState.CANCELLED)},
    *(states | outcomes | words for states in STATES for outcomes in OUTCOMES for words in WORDS),
], ids=str)  # fmt: skip
def test_items(store: SqlStore, shop: Managed, reads: Reads, chosen: dict[str, Any]) -> None:
    for after in (0, ITEMS // 3):
        items = partial(store.manager_doors.search_items, shop.id, ItemFilter(**chosen), after=after, limit=MOST_ITEMS)
        page = reads.bounded(items)
        assert page.rest is None or page.rest > after


@pytest.mark.parametrize(
    "chosen", [{"outcome": "banned"}, {"outcome": NEVER}, {"states": (ItemState.FAILED,)}], ids=str
)
def test_items_that_an_index_finds_are_one_page(
    store: SqlStore, shop: Managed, reads: Reads, chosen: dict[str, Any]
) -> None:
    page = reads.bounded(partial(store.manager_doors.search_items, shop.id, ItemFilter(**chosen), limit=MOST_ITEMS))
    assert (page.rest, len(page.items)) == (None, 0 if NEVER in chosen.values() else ITEMS // RARE)


def test_managers(store: SqlStore, shop: Managed, reads: Reads) -> None:
    reads.bounded(partial(store.manager_doors.statuses, shop.id))
    reads.bounded(partial(store.manager_doors.sums, [shop.uid]))
