"""Check and upgrade of the database's schema.

A revision has four digits: 0103 is the third in generation 01. Within a generation a schema only gains tables, columns
and indexes, so programs for an earlier revision continue while newer programs take over. A revision that removes a
part begins a generation, and earlier programs refuse the new generation.

Every program runs `check` at its start. Only `upgrade` changes a schema, and only `upgrade` imports Alembic.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, String, column, event, func, insert, inspect, select, table

from crawler_lifecycle.database.database import Database, is_sqlite, parse_url, retry_while_contended
from crawler_lifecycle.database.failures import UPGRADE
from crawler_lifecycle.database.schema import REVISION, installation
from crawler_lifecycle.errors import NotReady, TemporaryError

# JSON_TABLE came with MariaDB 10.6. MySQL 8.0.17 and 8.0.18 reserve words that later versions do not.
OLDEST = {"MySQL": (8, 0, 19), "MariaDB": (10, 6)}
LOCK_NAME = "crawler_lifecycle.migration"
LOCK_SECONDS = 60  # a second upgrade waits at most this long for the first
STATEMENT_SECONDS = 24 * 3600  # a statement's time limit: a change to a big table takes long
SCRIPTS = Path(__file__).parent / "migrations"
VERSIONS = table("alembic_version", column("version_num", String(32)))


def check(database: Database) -> None:
    """Raise NotReady unless the server is new enough, and the schema has every part that this program needs."""
    with database.read() as connection:
        _refuse_old_server(database, connection.dialect)
        present = revision(connection)
    if present is None:
        raise NotReady(f"the database at {database.where} has no schema yet: {UPGRADE}")
    _refuse_unknown(database, present)
    if present < REVISION:
        raise NotReady(f"the schema of {database.where} is at {present}, this program needs {REVISION}: {UPGRADE}")


def upgrade(url: str) -> str:
    """Create or upgrade the schema. Return the installation's UUID, created by the first upgrade."""
    database = _database_for_upgrade(url)
    try:
        # SQLite refuses at once a new file that another process is setting up, whatever its busy timeout is
        return retry_while_contended(lambda: _upgrade(database))
    finally:
        database.close()


def _upgrade(database: Database) -> str:
    with _migration_lock(database) as connection:
        _refuse_old_server(database, connection.dialect)
        present = revision(connection)
        _refuse_unknown(database, present)
        if present is None or present < REVISION:
            _run_migrations(connection)
        return _installation_uid(connection, database)


def revision(connection: Connection) -> str | None:
    """Return the schema's revision; None if the database has no schema."""
    if not inspect(connection).has_table(VERSIONS.name):
        return None
    return connection.scalar(select(VERSIONS.c.version_num))


def _refuse_old_server(database: Database, dialect: Any) -> None:
    """Raise NotReady for a server before OLDEST; the dialect knows the version from the first connection."""
    if dialect.name != "mysql":
        return
    server = "MariaDB" if dialect.is_mariadb else "MySQL"
    oldest, present = OLDEST[server], tuple(part for part in dialect.server_version_info if isinstance(part, int))
    if present < oldest:
        raise NotReady(f"{database.where} is {server} {_dotted(present)}: use {server} {_dotted(oldest)} or later")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _refuse_unknown(database: Database, present: str | None) -> None:
    """Raise NotReady for a later generation, and for any revision other than four digits."""
    if present is None:
        return
    has_four_digits = present.isdecimal() and len(present) == len(REVISION)
    is_later_generation = present[:2] > REVISION[:2]
    if not has_four_digits or is_later_generation:
        raise NotReady(
            f"the schema of {database.where} is at {present!r}, which this program (up to {REVISION}) does not know:"
            " use a newer version of the program"
        )


def _database_for_upgrade(url: str) -> Database:
    """Return the database with settings for an upgrade. For SQLite, create the file unless it exists."""
    address = parse_url(url)
    if not is_sqlite(address):
        address = address.update_query_dict({"read_timeout": str(STATEMENT_SECONDS)})
        return Database(address.render_as_string(hide_password=False), pool_size=2)
    _make_file(address.database)
    database = Database(url, pool_size=2)

    @event.listens_for(database.engine, "connect")
    def let_tables_be_replaced(connection: Any, _: Any) -> None:
        # a migration may replace a table by a copy; inside a transaction the pragma would have no effect
        connection.execute("PRAGMA foreign_keys=OFF")

    return database


def _make_file(path: str | None) -> None:
    if not path or path == ":memory:":
        raise NotReady("database.url: expected a file, as in sqlite:////var/lib/crawler/crawler.db")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    except OSError as error:
        raise NotReady(f"the database file {path} cannot be made: {error.strerror}") from error


@contextmanager
def _migration_lock(database: Database) -> Iterator[Connection]:
    """Yield a connection, and let one process migrate at a time.

    In SQLite the transaction is the lock. MySQL commits at every change to a table, so a named lock stands in there.
    """
    if is_sqlite(database.engine.url):
        with database.transaction() as connection:
            yield connection
        return
    with database.read() as connection:
        if not connection.scalar(select(func.get_lock(LOCK_NAME, LOCK_SECONDS))):
            raise TemporaryError(f"the database at {database.where} is being upgraded by another process")
        try:
            yield connection
            connection.commit()  # otherwise the next holder of the lock would not see the last rows
        finally:
            if not connection.invalidated:  # a broken connection has lost the lock, and its own error must be seen
                connection.rollback()
                connection.scalar(select(func.release_lock(LOCK_NAME)))


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    if connection.dialect.name == "mysql":  # a change that gave up halfway could not be repeated
        connection.exec_driver_sql(f"SET lock_wait_timeout = {STATEMENT_SECONDS}")
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _installation_uid(connection: Connection, database: Database) -> str:
    """Return the installation's UUID; create the installation's row unless it exists."""
    uid = connection.scalar(select(installation.c.uid))
    if uid is None:
        uid = str(uuid4())
        connection.execute(insert(installation).values(id=1, uid=uid, created_at=database.clock()))
    return uid
