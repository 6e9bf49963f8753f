"""Forty readers with one token search among all runs; another token lists the newest runs meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import uuid4

import httpx
from sqlalchemy import Connection, func, insert, literal, select

from bench.databases import AS_INSTALLED, Row
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.http.tokens import Scope
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from tests.apis import Api, served
from tests.databases import create_database, running_mariadb

READERS = 40
COPIED = 10_000  # runs in a statement
LISTS = 40  # of the other token, beside each kind of search
UNIQUE = {"run_uid", "workflow_id", "first_execution_run_id"}
SEARCHES = ("search=zzz", "reason=nope", "requested_by=nobody")


def measure(scale: Scale) -> Table:
    with TemporaryDirectory(prefix="bench-readers-") as folder, running_mariadb(*AS_INSTALLED) as port:
        url = create_database(port, "crawler")
        upgrade(url)
        with closing(Database(url)) as database:
            database.transact(lambda connection: _fill(connection, database, scale.crawled))
        settings = {"CRAWLER_API__REQUESTS_PER_SECOND": "100000"}
        with served(Path(folder), url, **settings) as api:
            rows = [("nobody searches", *_lists(api)), *(_beside(api, search) for search in SEARCHES)]
    return Table(("forty readers ask for", "list of another token, median ms", "longest ms"), rows)


def _fill(connection: Connection, database: Database, runs: int) -> None:
    """Copy a run until the table has this number of runs."""
    new = NewRun(RunRequest(crawler="books"), Crawler(name="books", command=["true"]), 1, "crawl-1", str(uuid4()))
    SqlStore(database).runs.create(new)
    copied = [column for column in histories.c if column.name not in UNIQUE | {"id"}]
    names = [*sorted(UNIQUE), *(column.name for column in copied)]
    stored = 1
    while stored < runs:
        copies = select(*(func.uuid() for _ in UNIQUE), *copied).limit(literal(min(runs - stored, COPIED)))
        stored += connection.execute(insert(histories).from_select(names, copies)).rowcount


def _beside(api: Api, search: str) -> Row:
    with _searching(api, search):
        return (f"`{search}`", *_lists(api))


def _lists(api: Api) -> tuple[float, float]:
    """Return the median and the longest time of a list in milliseconds."""
    with api.client(Scope.READ) as http:
        taken = [_seconds(http) for _ in range(LISTS)]
    return median(taken) * 1000, max(taken) * 1000


def _seconds(http: httpx.Client) -> float:
    began = perf_counter()
    http.get("/v1/runs?limit=50").raise_for_status()
    return perf_counter() - began


@contextmanager
def _searching(api: Api, search: str) -> Iterator[None]:
    """Let the readers ask again and again during the block."""
    over, token = threading.Event(), api.token(Scope.READ)

    def read() -> None:
        with api.client(token=token) as http:
            while not over.is_set():
                http.get(f"/v1/runs?{search}")

    with ThreadPoolExecutor(READERS) as readers:
        reading = [readers.submit(read) for _ in range(READERS)]
        try:
            yield
        finally:
            over.set()
            for reader in reading:
                reader.result()
