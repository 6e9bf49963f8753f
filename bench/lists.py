"""Measure the lists, searches and counts whose rows `make test-large` bounds, on a large database."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median

from bench.databases import AS_INSTALLED, Row
from bench.measuring import seconds_of
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.flows.rules.words import HOST_PATIENCE
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.usage import UsageBy
from tests.kit.data.databases import create_database, running_mariadb
from tests.large.filling import YEARS, fill
from tests.large.filters import CASES, PAGE

MEMORY = "--innodb-buffer-pool-size=1G"
TURNS = 3
DAY = timedelta(days=1)
Reads = Mapping[str, Callable[[], object]]


def measure(scale: Scale) -> Table:
    now = datetime.now(UTC)
    with running_mariadb(*AS_INSTALLED, MEMORY) as port:
        url = create_database(port, "crawler")
        upgrade(url)
        with closing(Database(url)) as database:
            fill(database, scale.crawled, now)
            rows = [_row(kind, reads) for kind, reads in _kinds(SqlStore(database), scale.crawled, now)]
    return Table(("", "number", "median ms", "slowest, ms", "slowest"), rows)


def _row(kind: str, reads: Reads) -> Row:
    """Take the medians of a few turns."""
    turns = [{name: seconds_of(read) * 1000 for name, read in reads.items()} for _ in range(TURNS)]
    taken = {name: median(turn[name] for turn in turns) for name in reads}
    slowest = max(taken, key=lambda name: taken[name])
    return kind, len(reads), median(taken.values()), taken[slowest], slowest


def _kinds(store: SqlStore, runs: int, now: datetime) -> Iterator[tuple[str, Reads]]:
    shown = {" and ".join(names): RunFilter(**chosen).in_window(now) for names, chosen in CASES.items()}
    ever = {name: run.model_copy(update={"since": now - YEARS * 366 * DAY}) for name, run in shown.items()}
    search, counts = store.records.search, store.records.counts
    yield (
        "list of 30 days",
        {name: partial(search, runs_of, limit=PAGE, before=None) for name, runs_of in shown.items()},
    )
    yield "list, deep", {name: partial(search, runs_of, limit=PAGE, before=runs // 3) for name, runs_of in ever.items()}
    yield "count of 30 days", {name: partial(counts, runs_of) for name, runs_of in shown.items()}
    yield "count of all time", {name: partial(counts, runs_of) for name, runs_of in ever.items()}
    page = partial(store.flow_records.page, limit=PAGE)
    yield "flows", {"all": page, **{state.value: partial(page, states=[state]) for state in FlowState}}
    yield (
        "attention and installation",
        {
            "without room": partial(store.records.saturated, 50),
            "open runs": store.records.count_open,
            "approvals": partial(store.flow_records.awaiting_approval, limit=10),
            "without a host": partial(store.flow_records.without_host, now - HOST_PATIENCE, limit=10),
            "failed items": partial(store.flow_records.with_failed_items, now - DAY, limit=10),
            "limits": store.limits.all,
        },
    )
    for days in (1, 30):
        period = now - days * DAY, now
        yield f"usage of {days} days", {by.value: partial(store.records.usage, by, *period) for by in UsageBy}
