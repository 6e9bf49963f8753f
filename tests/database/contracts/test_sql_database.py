"""Does trouble with a database reach the rest of the rig as one clear line that says what to do?"""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Connection, insert, make_url, select, update

from crawler_lifecycle.database import database as sql_database
from crawler_lifecycle.database import migrate
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.failures import Contended
from crawler_lifecycle.database.schema import histories, installation
from crawler_lifecycle.database.transactions import lock_run
from crawler_lifecycle.errors import Conflict, NotReady, PermanentError, TemporaryError
from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.processes import LEAST_CONNECTIONS
from tests.kit.data.databases import MakeRun, with_parameters

SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
COLUMNS = "information_schema.columns"
# MySQL ends SLEEP at the limit without an error
ENDLESS = f"SELECT COUNT(*) FROM {COLUMNS} AS a, {COLUMNS} AS b, {COLUMNS} AS c WHERE a.column_name < b.column_name"
MARIADB = pytest.mark.parametrize("database_url", ["mariadb"], indirect=True)


def write_clock(connection: Connection, value: datetime) -> None:
    connection.execute(update(installation).values(created_at=value))


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-9, minutes=-30))])
def test_times_come_back_in_utc_to_the_microsecond(database: Database, zone: timezone) -> None:
    at = datetime(2026, 10, 25, 2, 30, 0, 1, zone)
    database.transact(lambda connection: write_clock(connection, at))
    with database.read() as connection:
        kept = connection.execute(select(installation.c.created_at)).scalar_one()
    assert (kept, kept.tzinfo) == (at, UTC)


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    with pytest.raises(PermanentError, match="without its zone"):
        database.transact(lambda connection: write_clock(connection, datetime(2026, 1, 1)))  # noqa: DTZ001


def test_an_error_undoes_the_whole_transaction(database: Database, make_run: MakeRun) -> None:
    run = make_run()

    def half(connection: Connection) -> None:
        connection.execute(update(histories).values(reason="half"))
        raise PermanentError("no further")

    with pytest.raises(PermanentError, match="no further"):
        database.transact(half)
    with database.read() as connection:
        assert connection.execute(select(histories.c.reason).where(histories.c.id == run.run_id)).scalar_one() is None


def test_a_row_that_breaks_a_rule_is_a_conflict(database: Database) -> None:
    row = {"id": 1, "uid": "x", "created_at": datetime.now(UTC)}
    with pytest.raises(Conflict, match="refuses a row"):
        database.transact(lambda connection: connection.execute(insert(installation).values(row)))


@pytest.mark.parametrize(("in_the_way", "written"), [(2, True), (99, False)])
def test_a_transaction_in_the_way_is_waited_out_for_a_while(database: Database, in_the_way: int, written: bool) -> None:
    now, tries = datetime.now(UTC), iter(range(100))

    def work(connection: Connection) -> None:
        write_clock(connection, now)
        if next(tries) < in_the_way:
            raise Contended("somebody else")

    if written:
        database.transact(work)
    else:
        with pytest.raises(TemporaryError, match="somebody else"):
            database.transact(work)
    with database.read() as connection:
        assert (connection.execute(select(installation.c.created_at)).scalar_one() == now) is written


@pytest.mark.parametrize("in_this_process", [True, False])
def test_a_hurried_transaction_is_tried_once_and_waits_for_moments(
    database: Database, database_url: str, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, *, in_this_process: bool
) -> None:
    monkeypatch.setattr("crawler_lifecycle.database.database.HURRIED_LOCK_SECONDS", 1)
    run, another = make_run(), database if in_this_process else Database(database_url)
    tries = []

    def work(connection: Connection) -> None:
        tries.append(1)
        lock_run(connection, run.run_id)

    with ThreadPoolExecutor(1) as thread, another.transaction() as holder:
        lock_run(holder, run.run_id)
        began = time.monotonic()
        with pytest.raises(Contended):
            thread.submit(database.transact, work, hurried=True).result()
        assert time.monotonic() - began < 5
    assert len(tries) <= 1, "SQLite locks the whole file, before any work"
    database.transact(work, hurried=True)
    if not in_this_process:
        another.close()


def test_patience_is_back_after_a_hurried_transaction(database: Database, database_url: str) -> None:
    database.transact(lambda connection: write_clock(connection, datetime.now(UTC)), hurried=True)
    with database.transaction() as connection:
        if database_url.startswith("sqlite"):
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 10_000
        else:
            assert connection.exec_driver_sql("SELECT @@innodb_lock_wait_timeout").scalar_one() == 10


def test_a_missing_schema_says_what_to_run(bare_url: str) -> None:
    database = Database(bare_url)
    with pytest.raises(NotReady, match="run `crawlctl db upgrade`"):
        database.transact(lambda connection: connection.execute(select(histories)))
    database.close()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("ssl_mode=VERIFY_IDENTITY", "'ssl_mode' is not a parameter (with CRAWLER_DATABASE__TLS=verify"),
        ("ssl_verify_identity=true", "'ssl_verify_identity' is not a parameter"),
        ("tls=true", "'tls' is not a parameter (with CRAWLER_DATABASE__TLS=verify"),
        ("secure=secret", "'secure' is not a parameter; expected one of bind_address, charset,"),
        ("connect_timeout=secret", "the parameter connect_timeout is not a whole number"),
        ("charset=secret&charset=utf8mb4", "the parameter charset is not a single value"),
    ],
)
def test_an_unknown_parameter_of_the_address_is_one_line(parameters: str, words: str) -> None:
    """Each process ended with a TypeError of the driver and its traceback."""
    with pytest.raises(NotReady) as refused:
        Database(f"mysql://crawler@127.0.0.1:9/crawler?{parameters}")
    assert words in refused.value.message
    assert "secret" not in refused.value.message
    assert "\n" not in refused.value.message


def test_parameters_for_tls_reach_the_driver() -> None:
    tls = "ssl_ca=/etc/ca.pem&ssl_check_hostname=true"
    engine = Database(f"mysql://crawler@127.0.0.1:9/crawler?{tls}&connect_timeout=2").engine
    _, options = engine.dialect.create_connect_args(engine.url)
    assert options["ssl"] == {"ca": "/etc/ca.pem", "check_hostname": True}
    assert (options["connect_timeout"], options["read_timeout"]) == (2, 30)


def test_a_server_that_is_down_is_named_without_its_password() -> None:
    database = Database("mysql://crawler:secret@127.0.0.1:9/crawler")
    with pytest.raises(TemporaryError, match=r"127\.0\.0\.1:9.*is it up\?") as down, database.read():
        pass
    assert "secret" not in down.value.message
    assert "\n" not in down.value.message


@MARIADB
@pytest.mark.parametrize(
    ("is_mariadb", "version", "words"),
    [
        (False, (8, 0, 18), r"MySQL 8\.0\.18: use MySQL 8\.0\.19 or later"),
        (False, (5, 7, 44), r"MySQL 5\.7\.44"),
        (True, (10, 5, 29), r"MariaDB 10\.5\.29: use MariaDB 10\.6 or later"),
        (False, (8, 0, 19), None),
        (False, (9, 1, 0), None),
        (True, None, None),  # the server of the tests
    ],
)
@pytest.mark.long
def test_a_server_that_is_too_old_is_told(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_mariadb: bool, version: tuple[int, ...] | None, words: str
) -> None:
    migrate.check(database)  # connects, and so learns the version
    if version is not None:
        monkeypatch.setattr(database.engine.dialect, "is_mariadb", is_mariadb)
        monkeypatch.setattr(database.engine.dialect, "server_version_info", version)
    if words is None:
        migrate.check(database)
    else:
        with pytest.raises(NotReady, match=words):
            migrate.check(database)


@MARIADB
def test_a_server_that_does_not_know_us(database_url: str) -> None:
    url = make_url(database_url)
    for wrong in (url.set(username="nobody", password="secret"), url.set(database="elsewhere")):
        database = Database(wrong.render_as_string(hide_password=False))
        with pytest.raises(NotReady, match="does not let us in") as refused, database.read():
            pass
        assert "secret" not in refused.value.message


@MARIADB
def test_a_connection_closed_while_unused_is_replaced(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "UNTESTED_SECONDS", 0.0)
    server = Database(database_url, pool_size=1)
    with database.read() as connection:
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
    with server.read() as connection:
        connection.exec_driver_sql(f"KILL {number:d}")
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one() != number
    server.close()


@MARIADB
def test_a_connection_lost_on_the_way_is_temporary_and_the_next_call_works(database: Database) -> None:
    def lose(connection: Connection) -> None:
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        with database.engine.connect() as other:
            other.exec_driver_sql(f"KILL {number:d}")
        connection.exec_driver_sql("SELECT 1")

    with pytest.raises(TemporaryError):
        database.transact(lose)
    database.transact(lambda connection: connection.exec_driver_sql("SELECT 1"))


@MARIADB
def test_all_activities_of_a_worker_share_the_fewest_connections(database_url: str) -> None:
    """More acts at once than connections: each waits for a connection, and none fails."""
    slots = Settings().worker.activity_slots

    def act(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT SLEEP(0.02)")

    with (
        closing(Database(database_url, pool_size=LEAST_CONNECTIONS)) as database,
        ThreadPoolExecutor(2 * slots) as threads,
    ):
        assert len(list(threads.map(lambda _: database.transact(act), range(2 * slots)))) == 2 * slots


@MARIADB
def test_the_server_ends_a_statement_before_the_driver_gives_up(database_url: str) -> None:
    """The driver closed the connection, and the server went on with a search among millions of rows."""
    database = Database(with_parameters(database_url, "read_timeout=6"), pool_size=1)
    with database.read() as connection:
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
    with (
        pytest.raises(TemporaryError, match="ended a statement that took too long: ask for fewer rows"),
        database.read() as connection,
    ):
        connection.exec_driver_sql(ENDLESS)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one() == number
    database.close()


@MARIADB
def test_a_write_that_waits_for_a_lock_names_the_lock(database_url: str) -> None:
    """Doctor told a person whose backup locked the database to ask for fewer rows."""
    database = Database(with_parameters(database_url, "read_timeout=6"), pool_size=2)
    with database.engine.connect() as other:
        other.exec_driver_sql("FLUSH TABLES WITH READ LOCK")
        try:
            with pytest.raises(TemporaryError, match="took too long: does another session hold a lock"):
                database.transact(lambda tx: tx.execute(update(installation).values(uid="another")), hurried=True)
        finally:
            other.exec_driver_sql("UNLOCK TABLES")
    database.close()


def test_a_limit_for_statements_has_the_name_that_the_server_knows() -> None:
    assert sql_database.statement_limit("5.5.5-10.11.14-MariaDB", 25) == "max_statement_time = 25"
    assert sql_database.statement_limit("8.4.2", 25) == "max_execution_time = 25000"


@MARIADB
def test_connections_to_a_server_that_takes_no_writes_are_replaced(database_url: str) -> None:
    database, at = Database(database_url, pool_size=1), datetime(2026, 1, 1, tzinfo=UTC)
    with database.read() as connection:
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
    with pytest.raises(TemporaryError, match="1792"):
        database.transact(lambda connection: write_clock(connection, at))
    database.transact(lambda connection: write_clock(connection, at))
    database.close()


@MARIADB
def test_a_deadlock_is_tried_again(database: Database, make_run: MakeRun) -> None:
    """Two transactions take two rows in opposite order: the server kills one, which then succeeds."""
    first, second = make_run().run_id, make_run().run_id
    both_hold_one = threading.Barrier(2)
    tries: list[int] = []

    def cross(order: tuple[int, int]) -> None:
        met = False

        def work(connection: Connection) -> None:
            nonlocal met
            tries.append(1)
            for number in order:
                one = update(histories).where(histories.c.id == number)
                connection.execute(one.values(end_number=histories.c.end_number + 1))
                if not met:
                    met = True
                    both_hold_one.wait(timeout=30)

        database.transact(work)

    threads = [threading.Thread(target=cross, args=(order,)) for order in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(tries) == 3
    with database.read() as connection:
        assert set(connection.scalars(select(histories.c.end_number))) == {2}


@MARIADB
def test_the_session_is_as_the_adapter_needs_it(database: Database) -> None:
    with database.read() as connection:
        isolation = connection.get_isolation_level()
        asked = "SELECT @@time_zone, @@character_set_client, @@sql_mode"
        zone, characters, mode = connection.exec_driver_sql(asked).one()
    assert (isolation, zone, characters) == ("READ COMMITTED", "+00:00", "utf8mb4")
    assert "STRICT_TRANS_TABLES" in mode


@SQLITE
def test_the_file_is_as_the_adapter_needs_it(database: Database) -> None:
    pragmas = {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 1, "busy_timeout": 10_000}
    with database.read() as connection:
        assert {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in pragmas} == pragmas


@SQLITE
def test_a_file_locked_by_another_process_is_waited_for(database: Database, database_url: str) -> None:
    other = sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ("COMMIT",))
    release.start()
    database.transact(lambda connection: write_clock(connection, datetime.now(UTC)))
    release.join()
    other.close()


@SQLITE
def test_a_file_locked_for_good_is_temporary(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler_lifecycle.database.database.LOCK_SECONDS", 0)
    other = sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    def impatient(connection: Connection) -> None:
        write_clock(connection, datetime.now(UTC))

    with pytest.raises(TemporaryError, match="locked by another process"):
        database.transact(impatient)
    other.close()


def test_a_database_is_not_made_by_asking(bare_url: str) -> None:
    database = Database(bare_url)
    with pytest.raises(NotReady), database.read() as connection:
        connection.execute(select(histories))
    database.close()
