"""Check and upgrade of the database's schema.

A revision has four digits: 0103 is the third in generation 01. Within a generation a schema only gains tables, columns
and indexes, so programs for an earlier revision continue while newer programs take over. A revision that removes a
part begins a generation, and earlier programs refuse the new generation.

Only `upgrade` changes a schema. Alembic is imported there alone: a check is a single SELECT.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, String, column, event, func, insert, inspect, select, table

from crawler_lifecycle.adapters.sql.database import Database, is_sqlite, parse_url, tried_again
from crawler_lifecycle.adapters.sql.failures import UPGRADE
from crawler_lifecycle.adapters.sql.schema import REVISION, installation
from crawler_lifecycle.errors import NotReady, TemporaryError

LOCK = "crawler_lifecycle.migration"
LOCK_SECONDS = 60
LONGEST_STATEMENT_SECONDS = 24 * 3600  # a change to a big table takes long
SCRIPTS = Path(__file__).parent / "migrations"
VERSIONS = table("alembic_version", column("version_num", String(32)))


def check(database: Database) -> None:
    """Raise NotReady unless the schema has every part that this program needs."""
    with database.read() as connection:
        present = revision(connection)
    if present is None:
        raise NotReady(f"the database at {database.where} has no schema yet: {UPGRADE}")
    _refuse_unknown(database, present)
    if present < REVISION:
        raise NotReady(f"the schema of {database.where} is at {present}, this program needs {REVISION}: {UPGRADE}")


def upgrade(url: str) -> str:
    """Create or upgrade the schema. Return the installation's UUID, created by the first upgrade."""
    database = _for_migrating(url)
    try:
        # SQLite refuses at once a new file that another process is setting up, whatever its busy timeout is
        return tried_again(lambda: _upgrade(database))
    finally:
        database.close()


def _upgrade(database: Database) -> str:
    with _locked(database) as connection:
        present = revision(connection)
        _refuse_unknown(database, present)
        if present is None or present < REVISION:
            _run_migrations(connection)
        return _installation(connection, database)


def revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSIONS.name):
        return None
    return connection.scalar(select(VERSIONS.c.version_num))


def _refuse_unknown(database: Database, present: str | None) -> None:
    """Raise NotReady for a later generation, and for any revision other than four digits."""
    if present is None or (present.isdecimal() and len(present) == len(REVISION) and present[:2] <= REVISION[:2]):
        return
    raise NotReady(
        f"the schema of {database.where} is at {present!r}, which this program (up to {REVISION}) does not know:"
        " use a newer version of the program"
    )


def _for_migrating(url: str) -> Database:
    address = parse_url(url)
    if not is_sqlite(address):
        address = address.update_query_dict({"read_timeout": str(LONGEST_STATEMENT_SECONDS)})
        return Database(address.render_as_string(hide_password=False), pool_size=2)
    _make_file(address.database)
    database = Database(url, pool_size=2)

    @event.listens_for(database.engine, "connect")
    def let_tables_be_replaced(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA foreign_keys=OFF")  # has no effect inside a transaction

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
def _locked(database: Database) -> Iterator[Connection]:
    """Let one process migrate at a time.

    On SQLite the transaction is the lock. MySQL commits at every change to a table, so MySQL holds a named lock.
    """
    if is_sqlite(database.engine.url):
        with database.transaction() as connection:
            yield connection
        return
    with database.read() as connection:
        if not connection.scalar(select(func.get_lock(LOCK, LOCK_SECONDS))):
            raise TemporaryError(f"the database at {database.where} is being upgraded by another process")
        try:
            yield connection
            connection.commit()  # otherwise the next holder of the lock would not see the last rows
        finally:
            if not connection.invalidated:  # otherwise the lock is lost, and an error here would hide the first error
                connection.rollback()
                connection.scalar(select(func.release_lock(LOCK)))


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _installation(connection: Connection, database: Database) -> str:
    uid = connection.scalar(select(installation.c.uid))
    if uid is None:
        uid = str(uuid4())
        connection.execute(insert(installation).values(id=1, uid=uid, created_at=database.clock()))
    return uid
