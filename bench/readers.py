"""Forty readers with one token search among all runs; another token lists the newest runs meanwhile.

The API, the readers (`python -m bench.readers URL TOKEN SEARCH`) and the measurement are processes of their own. The
readers yield to the API, as on other machines.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
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
from crawler_lifecycle.http.tokens import Scope, Tokens
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.stack.plan import free_ports
from tests.kit.data.databases import create_database, running_mariadb
from tests.kit.waiting import until

READERS = 40
COPIED = 10_000  # runs in a statement
LISTS = 40  # of the other token, beside each kind of search
UNIQUE = {"run_uid", "workflow_id", "first_execution_run_id"}
SETTLING = 3.0  # seconds until all readers ask
SEARCHES = ("search=zzz", "reason=nope", "requested_by=nobody")


def measure(scale: Scale) -> Table:
    with TemporaryDirectory(prefix="bench-readers-") as folder, running_mariadb(*AS_INSTALLED) as port:
        url = create_database(port, "crawler")
        upgrade(url)
        with closing(Database(url)) as database:
            database.transact(lambda connection: _fill(connection, database, scale.crawled))
        tokens = Tokens(Path(folder, "api-tokens.json"))
        lister, reader = tokens.make("lister", [Scope.READ]), tokens.make("reader", [Scope.READ])
        with _served(folder, url, {"CRAWLER_API__REQUESTS_PER_SECOND": "100000"}) as api:
            rows: list[Row] = [("nobody searches", "-", *_lists(api, lister))]
            for search in SEARCHES:
                with _searching(api, reader, search):
                    rows.append((f"`{search}`", "none", *_lists(api, lister)))
        with _served(folder, url, {}) as api, _searching(api, reader, SEARCHES[0]):
            rows.append((f"`{SEARCHES[0]}`", "50 a second", *_lists(api, lister)))
    return Table(("forty readers ask for", "limit of requests", "list of another token, median ms", "longest ms"), rows)


@contextmanager
def _served(folder: str, database: str, settings: Mapping[str, str]) -> Iterator[str]:
    """Serve the API in a process of its own, and yield its address."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    own = {"CRAWLER_STATE": folder, "CRAWLER_DATABASE__URL": database, "CRAWLER_API__URL": url}
    environment = {**os.environ, **own, "TEMPORAL_ADDRESS": "127.0.0.1:1", **settings}
    with _process([sys.executable, "-m", "workers.api"], environment):
        until(lambda: _is_up(url), "the API to be up")
        yield url


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def _process(command: list[str], environment: Mapping[str, str]) -> Iterator[None]:
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def _searching(api: str, token: str, search: str) -> Iterator[None]:
    """Let the readers ask again and again during the block."""
    with _process(["nice", "-n", "19", sys.executable, "-m", "bench.readers", api, token, search], os.environ):
        threading.Event().wait(SETTLING)
        yield


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


def _lists(api: str, token: str) -> tuple[float, float]:
    """Return the median and the longest time of a list in milliseconds."""
    with _client(api, token) as http:
        taken = [_seconds(http) for _ in range(LISTS)]
    return median(taken) * 1000, max(taken) * 1000


def _client(api: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False)


def _seconds(http: httpx.Client) -> float:
    began = perf_counter()
    http.get("/v1/runs?limit=50").raise_for_status()
    return perf_counter() - began


def read(api: str, token: str, search: str) -> None:
    """Search again and again, by as many readers at once, until SIGTERM."""

    def search_on() -> None:
        with _client(api, token) as http:
            while True:
                http.get(f"/v1/runs?{search}")

    for _ in range(READERS):
        threading.Thread(target=search_on, daemon=True).start()
    signal.pause()


if __name__ == "__main__":
    read(*sys.argv[1:])
