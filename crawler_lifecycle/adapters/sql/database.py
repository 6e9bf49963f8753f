"""Connections to the database: a pool, short transactions, and the drivers' errors translated."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from crawler_lifecycle.adapters.sql.failures import UPGRADE, Contended, explain
from crawler_lifecycle.adapters.sql.fair_lock import WITHOUT_LIMIT, FairLock
from crawler_lifecycle.domain.pacing import Backoff
from crawler_lifecycle.errors import NotReady

T = TypeVar("T")
TRIES = 6  # for a Contended transaction
PAUSES = Backoff(timedelta(milliseconds=20), timedelta(seconds=1))
# how long a statement waits for the locks of other writers; the hurried time is for writes within a stop
LOCK_SECONDS, HURRIED_LOCK_SECONDS = 10, 3
WRITING = {"writing": True}
HURRIED = {**WRITING, "hurried": True}
# defaults; the URL may replace them
MYSQL_OPTIONS = {"charset": "utf8mb4", "connect_timeout": "5", "read_timeout": "30", "write_timeout": "30"}
MYSQL_SESSION = (
    f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_SECONDS},"
    " sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)


def utcnow() -> datetime:
    return datetime.now(UTC)


class Database:
    """Connections for one process. The constructor does not connect. All methods are thread-safe."""

    def __init__(self, url: str, *, pool_size: int = 20, clock: Callable[[], datetime] = utcnow) -> None:
        address = parse_url(url)
        self.clock = clock
        self.where = address.database or ":memory:" if is_sqlite(address) else address.set(query={}).render_as_string()
        self.engine = _sqlite(address, pool_size) if is_sqlite(address) else _mysql(address, pool_size)
        self._writing = self.engine.execution_options(**WRITING)
        self._hurried = self.engine.execution_options(**HURRIED)
        self._writers = FairLock() if is_sqlite(address) else None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._explained(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def transaction(self, *, hurried: bool = False) -> Iterator[Connection]:
        """Open a transaction for writing. The end commits, and any error rolls back.

        `hurried`: raise Contended after HURRIED_LOCK_SECONDS of waiting for a lock, not after LOCK_SECONDS.
        """
        engine = self._hurried if hurried else self._writing
        with (
            self._turn(hurried=hurried),
            self._explained(),
            engine.begin() as connection,
            self._lock_waits(connection, hurried=hurried),
        ):
            yield connection

    def transact(self, work: Callable[[Connection], T], *, hurried: bool = False) -> T:
        """Do the work in a transaction; repeat the whole transaction if another transaction was in the way.

        A `hurried` transaction is tried once, since its caller has to go on.
        """
        if hurried:
            return self._once(work, hurried=True)
        return tried_again(lambda: self._once(work))

    def close(self) -> None:
        self.engine.dispose()

    def _once(self, work: Callable[[Connection], T], *, hurried: bool = False) -> T:
        with self.transaction(hurried=hurried) as connection:
            return work(connection)

    def _lock_waits(self, connection: Connection, *, hurried: bool) -> AbstractContextManager[None]:
        """Shorten the waits for locks in MySQL. SQLite has waited at the transaction's begin."""
        is_short = hurried and self._writers is None
        return _short_lock_waits(connection) if is_short else nullcontext()

    def _turn(self, *, hurried: bool) -> AbstractContextManager[None]:
        """Return the lock that lets the writers of this process write in turn, if the database needs the lock."""
        if self._writers is None:
            return nullcontext()
        return self._writers.held(HURRIED_LOCK_SECONDS if hurried else WITHOUT_LIMIT)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise explain(error, self.where) from error


def tried_again(attempt: Callable[[], T]) -> T:
    """Return the result of the attempt; try up to TRIES times while another transaction is in the way."""
    for number in range(1, TRIES):
        try:
            return attempt()
        except Contended:
            time.sleep(PAUSES.seconds(number))  # another process may be in the way: no event tells of its end
    return attempt()


def parse_url(url: str) -> URL:
    """Return the address with the driver for its database. NotReady if the address cannot be used."""
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: the port is not a number
        raise NotReady(f"database.url: {error}") from error
    if "@" in (address.host or ""):
        raise NotReady("database.url: an @ in the password is written %40")
    match address.get_backend_name():
        case "sqlite":
            return address.set(drivername="sqlite+pysqlite")
        case "mysql" | "mariadb":
            return address.set(drivername="mysql+pymysql", query={**MYSQL_OPTIONS, **address.query})
        case other:
            raise NotReady(f"database.url: expected sqlite://, mysql:// or mariadb://, not {other}://")


def is_sqlite(address: URL) -> bool:
    return address.get_backend_name() == "sqlite"


def _sqlite(address: URL, pool_size: int) -> Engine:
    if not address.database:
        raise NotReady("database.url: expected the path of a file, as in sqlite:////path/to/crawler.db")
    engine = create_engine(address, pool_size=pool_size, max_overflow=0)

    @event.listens_for(engine, "do_connect")
    def refuse_to_make_a_file(*_: Any) -> None:
        if not Path(address.database or "").exists():
            raise NotReady(
                f"there is no database at {address.database}: start the stack with `crawlctl up`, or {UPGRADE}"
            )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # otherwise the driver would begin transactions of the wrong kind
        for pragma in (f"busy_timeout={LOCK_SECONDS}000", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get("writing"):
            connection.exec_driver_sql("BEGIN")
            return
        seconds = HURRIED_LOCK_SECONDS if options.get("hurried") else LOCK_SECONDS
        driver: Any = connection.connection.driver_connection
        driver.execute(f"PRAGMA busy_timeout={seconds}000")
        # IMMEDIATE takes the lock now: after a first read the transaction would fail at its write instead of waiting
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _mysql(address: URL, pool_size: int) -> Engine:
    return create_engine(
        address,
        pool_size=pool_size,
        max_overflow=0,  # the server's limit holds for all processes together: no process exceeds its setting
        pool_pre_ping=True,
        pool_recycle=1800,
        isolation_level="READ COMMITTED",
        connect_args={"init_command": MYSQL_SESSION},
    )


@contextmanager
def _short_lock_waits(connection: Connection) -> Iterator[None]:
    """Let a connection to MySQL wait for locks for HURRIED_LOCK_SECONDS during the block."""
    _set_lock_wait(connection, HURRIED_LOCK_SECONDS)
    try:
        yield
    finally:
        with suppress(SQLAlchemyError):  # a broken connection leaves the pool, and hides no error of the block
            _set_lock_wait(connection, LOCK_SECONDS)


def _set_lock_wait(connection: Connection, seconds: int) -> None:
    connection.exec_driver_sql(f"SET innodb_lock_wait_timeout = {seconds}")
