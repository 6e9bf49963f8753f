"""Another server becomes the primary, and the name in the URL leads to it. Two real servers behind a proxy."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, text

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import TemporaryError
from tests.kit.data.databases import RELAXED, WITHOUT_TLS, MariaDB, create_database, execute, mariadb, set_read_only
from tests.kit.outside.proxy import proxy_to

pytestmark = [pytest.mark.mariadb, pytest.mark.timeout(240)]
CONNECTIONS, NAME, PASSWORD = 4, "failover", "secret"
MOST_SECONDS = 10.0
PORT, INSERT, COUNT = text("SELECT @@port"), text("INSERT INTO acts VALUES (1)"), text("SELECT COUNT(*) FROM acts")


@pytest.fixture(scope="module")
def old() -> Iterator[MariaDB]:
    with mariadb(*RELAXED) as server:
        yield server


def read_only(old: MariaDB) -> None:
    """A planned switch: the old primary continues as a replica (1290)."""
    set_read_only(old.port, is_so=True)


def read_only_transactions(old: MariaDB) -> None:
    """The same by the other variable (1792)."""
    execute(old.port, "SET GLOBAL tx_read_only = 1")


def killed(old: MariaDB) -> None:
    old.end(signal.SIGKILL)


@pytest.mark.parametrize("fate", [read_only_transactions, read_only, killed], ids=lambda fate: fate.__name__)
def test_a_new_primary_is_used_within_seconds(
    mariadb_server: int, old: MariaDB, fate: Callable[[MariaDB], None]
) -> None:
    """All connections of a pool stayed at a former primary that took no writes, for half an hour. (R10)"""
    set_read_only(old.port, is_so=False)
    for port in (old.port, mariadb_server):
        execute(port, f"DROP DATABASE IF EXISTS {NAME}")
        create_database(port, NAME, PASSWORD)
        execute(port, f"CREATE TABLE {NAME}.acts (number INTEGER)")
    with (
        proxy_to(f"tcp://127.0.0.1:{old.port}") as proxy,
        closing(Database(_address(proxy.url), pool_size=CONNECTIONS)) as database,
    ):
        if fate is read_only_transactions:
            fate(old)  # sessions that exist keep the variable's value
        assert _ports(database) == [old.port] * CONNECTIONS
        proxy.lead_to(f"tcp://127.0.0.1:{mariadb_server}")
        if fate is not read_only_transactions:
            fate(old)
        began, failures = time.monotonic(), 0
        while not _is_written(database):
            failures += 1
            assert time.monotonic() - began < MOST_SECONDS
        assert failures == 1, "the first failure ends all connections to the old primary"
        assert _ports(database) == [mariadb_server] * CONNECTIONS
        with database.read() as connection:
            assert connection.scalar(COUNT) == 1
    if fate is read_only_transactions:
        execute(old.port, "SET GLOBAL tx_read_only = 0")


def _ports(database: Database) -> list[int]:
    """Return the server of each connection of the pool."""
    with ExitStack() as at_once:
        return [at_once.enter_context(database.read()).scalar(PORT) or 0 for _ in range(CONNECTIONS)]


def _address(proxy: str) -> str:
    return f"mysql://{NAME}:{PASSWORD}@{urlsplit(proxy).netloc}/{NAME}?{WITHOUT_TLS}"


def _is_written(database: Database) -> bool:
    def write(connection: Connection) -> None:
        connection.execute(INSERT)

    try:
        database.transact(write)
    except TemporaryError:
        return False
    return True
