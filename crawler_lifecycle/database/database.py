"""Connections to the database: a pool, short transactions, and the drivers' errors translated."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.database.failures import NO_PRIMARY, UPGRADE, Contended, our_error
from crawler_lifecycle.database.fair_lock import WITHOUT_LIMIT, FairLock
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.metrics import CONNECTION_LIMIT, CONNECTIONS, CONTENDED, DISCONNECTS, STATEMENT_SECONDS

T = TypeVar("T")
log = logging.getLogger(__name__)
TRIES = 6  # a transaction is tried at most so often while another transaction is in the way
PAUSES = Backoff(timedelta(milliseconds=20), timedelta(seconds=1))
# a statement's longest wait for another writer's lock; the hurried time is for writes within a stop
LOCK_SECONDS, HURRIED_LOCK_SECONDS = 10, 3
# execution options, read by `begin` in `_sqlite_engine`
WRITING = {"writing": True}
HURRIED = {**WRITING, "hurried": True}
SNAPSHOT = {"isolation_level": "REPEATABLE READ"}
USED_AT, UNTESTED_SECONDS = "used_at", 1.0  # a connection to MySQL is tested after being unused for this time
SLOW_SECONDS = 2.0  # slower statements are logged
BEGAN_AT, LONGEST_STATEMENT = "statement_began_at", 200  # characters of a statement in the log
SLOW_LINE_SECONDS = 5.0  # shortest time between two lines about slow statements
KINDS = {"SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN"}  # of statements, as labels; others share a label
# default options for the driver, times in seconds; the URL may replace every option
MYSQL_OPTIONS = {"charset": "utf8mb4", "connect_timeout": "5", "read_timeout": "30", "write_timeout": "30"}
# parameters allowed in a URL. The driver's others take no text, or have no effect through SQLAlchemy:
# with ssl_verify_identity the certificate's name would not be compared
MYSQL_PARAMETERS = {
    *("bind_address", "charset", "client_flag", "collation", "compress", "connect_timeout", "local_infile"),
    *("program_name", "read_default_file", "read_default_group", "read_timeout", "unix_socket", "write_timeout"),
    *("ssl_ca", "ssl_capath", "ssl_cert", "ssl_check_hostname", "ssl_cipher", "ssl_disabled", "ssl_key"),
}
HOW_TLS = " (with CRAWLER_DATABASE__TLS=verify the server has to prove its name by a certificate)"
# the server has two limits: for locks on rows, and for locks on tables and on the whole server, as by a backup
LOCK_WAITS = "innodb_lock_wait_timeout = {0}, lock_wait_timeout = {0}"
MYSQL_SESSION = (
    f"SET time_zone = '+00:00', {LOCK_WAITS.format(LOCK_SECONDS)},"
    " sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)
# A statement ends this time before the driver gives up. Otherwise the server would continue without a reader.
MARGIN_SECONDS = 5


def utcnow() -> datetime:
    return datetime.now(UTC)


class Database:
    """Connections for one process. The constructor does not connect. All methods are thread-safe."""

    def __init__(self, url: str, *, pool_size: int = 20, clock: Callable[[], datetime] = utcnow) -> None:
        address = parse_url(url)
        self.clock = clock
        self.where = _place_in_messages(address)
        self.engine = _sqlite_engine(address, pool_size) if is_sqlite(address) else _mysql_engine(address, pool_size)
        self._writing_engine = self.engine.execution_options(**WRITING)
        self._hurried_engine = self.engine.execution_options(**HURRIED)
        is_file = is_sqlite(address)
        self._snapshot_engine = self.engine if is_file else self.engine.execution_options(**SNAPSHOT)
        self._fair_lock = FairLock() if is_file else None
        _measure_statements(self.engine, self.where)
        CONNECTION_LIMIT.set(pool_size)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for reading; the end of the block gives the connection back to the pool."""
        with self._translated_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """As `read`, but all statements in the block see the same moment, as in SQLite anyway."""
        with self._translated_errors(), self._snapshot_engine.connect() as connection:
            yield connection

    @contextmanager
    def transaction(self, *, hurried: bool = False) -> Iterator[Connection]:
        """Open a transaction for writing. The end of the block commits, and any error rolls back.

        `hurried`: raise Contended after HURRIED_LOCK_SECONDS of waiting for a lock, not after LOCK_SECONDS.
        """
        engine = self._hurried_engine if hurried else self._writing_engine
        with (
            self._writer_lock(hurried=hurried),
            self._translated_errors(),
            engine.begin() as connection,
            self._shortened_lock_waits(connection, hurried=hurried),
        ):
            yield connection

    def transact(self, work: Callable[[Connection], T], *, hurried: bool = False) -> T:
        """Do the work in a transaction and return its result. Repeat the transaction while it raises Contended.

        A `hurried` transaction is tried once, since its caller has to continue.
        """
        if hurried:
            return self._transact_once(work, hurried=True)
        return retry_while_contended(lambda: self._transact_once(work))

    def close(self) -> None:
        self.engine.dispose()

    def _transact_once(self, work: Callable[[Connection], T], *, hurried: bool = False) -> T:
        with self.transaction(hurried=hurried) as connection:
            return work(connection)

    def _shortened_lock_waits(self, connection: Connection, *, hurried: bool) -> AbstractContextManager[None]:
        """Shorten the waits of a hurried transaction in MySQL. SQLite has waited at the transaction's begin."""
        is_mysql = self._fair_lock is None
        return _short_waits_in_mysql(connection) if hurried and is_mysql else nullcontext()

    def _writer_lock(self, *, hurried: bool) -> AbstractContextManager[None]:
        """Return the lock for SQLite that lets the process's writers take turns; for MySQL, an empty context."""
        if self._fair_lock is None:
            return nullcontext()
        return self._fair_lock.held(HURRIED_LOCK_SECONDS if hurried else WITHOUT_LIMIT)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise our_error(error, self.where) from error


def retry_while_contended(attempt: Callable[[], T]) -> T:
    """Return the attempt's result. While the attempt raises Contended, try again, up to TRIES times in all."""
    for number in range(1, TRIES):
        try:
            return attempt()
        except Contended as error:
            CONTENDED.labels("repeated").inc()
            log.info("a transaction is repeated after try %d of %d: %s", number, TRIES, error.message)
            time.sleep(PAUSES.seconds(number))  # another process may be in the way: no event shows its end
    try:
        return attempt()
    except Contended as error:
        CONTENDED.labels("given_up").inc()
        log.warning("a transaction is given up after %d tries: %s", TRIES, error.message)
        raise


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
            _refuse_unknown_parameters(address)
            return address.set(drivername="mysql+pymysql", query={**MYSQL_OPTIONS, **address.query})
        case other:
            raise NotReady(f"database.url: expected sqlite://, mysql:// or mariadb://, not {other}://")


def _refuse_unknown_parameters(address: URL) -> None:
    """Raise NotReady for an unknown parameter and for a value that cannot be used.

    Otherwise the driver would raise a bare TypeError at every connection. No message shows a value: it may be a secret.
    """
    for name, value in sorted(address.query.items()):
        if name not in MYSQL_PARAMETERS:
            hint = HOW_TLS if name.lower().startswith(("ssl", "tls")) else ""
            known = ", ".join(sorted(MYSQL_PARAMETERS))
            raise NotReady(f"database.url: {name[:80]!r} is not a parameter{hint}; expected one of {known}")
        is_number = name.endswith("_timeout") or name == "client_flag"
        if not isinstance(value, str) or (is_number and not value.isdecimal()):
            expected = "a whole number" if is_number else "a single value"
            raise NotReady(f"database.url: the parameter {name} is not {expected}")


def is_sqlite(address: URL) -> bool:
    return address.get_backend_name() == "sqlite"


def _place_in_messages(address: URL) -> str:
    """Return the file for SQLite, and the address without password and options for MySQL."""
    if is_sqlite(address):
        return address.database or ":memory:"
    return address.set(query={}).render_as_string()


def _measure_statements(engine: Engine, where: str) -> None:
    """Count connections and statements of the engine, and log slow statements, also failed ones.

    A line has the statement's text without its values, which may be secrets.
    """
    next_line_at = 0.0

    @event.listens_for(engine, "checkout")
    def count_use(*_: Any) -> None:
        CONNECTIONS.inc()

    @event.listens_for(engine, "checkin")
    def count_return(*_: Any) -> None:
        CONNECTIONS.dec()

    @event.listens_for(engine, "before_cursor_execute")
    def begin(connection: Connection, *_: Any) -> None:
        connection.info[BEGAN_AT] = time.monotonic()

    @event.listens_for(engine, "after_cursor_execute")
    def succeed(connection: Connection, _: Any, statement: str, *__: Any) -> None:
        end(connection, statement, "done")

    @event.listens_for(engine, "handle_error")
    def fail(context: ExceptionContext) -> None:
        if context.connection is not None and context.statement is not None:
            end(context.connection, context.statement, str(context.original_exception))
        if context.is_disconnect:
            DISCONNECTS.inc()

    def end(connection: Connection, statement: str, outcome: str) -> None:
        nonlocal next_line_at
        now = time.monotonic()
        seconds = now - connection.info.pop(BEGAN_AT, now)
        kind = statement.split(None, 1)[0].upper()
        STATEMENT_SECONDS.labels(kind if kind in KINDS else "other").observe(seconds)
        if seconds >= SLOW_SECONDS and now >= next_line_at:
            next_line_at = now + SLOW_LINE_SECONDS
            text = " ".join(statement.split())[:LONGEST_STATEMENT]
            log.warning("the database at %s took %.1f s for a statement: %s: %s", where, seconds, text, outcome)


def _sqlite_engine(address: URL, pool_size: int) -> Engine:
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
        connection.isolation_level = None  # otherwise the driver itself would begin transactions, not `begin` below
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
        # IMMEDIATE takes the write lock now: a transaction that reads first would fail at its write and not wait
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _mysql_engine(address: URL, pool_size: int) -> Engine:
    engine = create_engine(
        address,
        pool_size=pool_size,
        max_overflow=0,  # the server's limit holds for all processes together: no process exceeds its setting
        pool_reset_on_return=None,  # `connect` and `begin` end transactions: a ROLLBACK more would be a round trip
        pool_recycle=1800,  # seconds: a connection is replaced before a firewall drops the silent connection
        isolation_level="READ COMMITTED",
        connect_args={"init_command": MYSQL_SESSION},
    )

    @event.listens_for(engine, "connect")
    def limit_statements(connection: Any, _: Any) -> None:
        seconds = max(1, int(str(address.query["read_timeout"])) - MARGIN_SECONDS)
        with connection.cursor() as cursor:
            cursor.execute(f"SET {statement_limit(connection.get_server_info(), seconds)}")

    @event.listens_for(engine, "connect")
    @event.listens_for(engine, "checkin")
    def note_use(_: Any, record: ConnectionPoolEntry) -> None:
        record.info[USED_AT] = time.monotonic()

    @event.listens_for(engine, "handle_error")
    def leave_a_server_without_writes(context: ExceptionContext) -> None:
        """Close all connections to a former primary: the next ones go to the server that has the address now."""
        error = context.original_exception
        if error.args and error.args[0] in NO_PRIMARY:
            context.is_disconnect = True

    @event.listens_for(engine, "checkout")
    def ping_after_a_pause(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        """Replace a connection closed by the server. A ping at every checkout would be a third of all requests."""
        if time.monotonic() - record.info[USED_AT] > UNTESTED_SECONDS:
            try:
                connection.ping(reconnect=False)
            except connection.Error as error:
                raise InvalidatePoolError from error

    return engine


def statement_limit(server: str, seconds: int) -> str:
    """Return the setting for a server's longest statement. MySQL limits only SELECT."""
    return f"max_statement_time = {seconds}" if "MariaDB" in server else f"max_execution_time = {seconds}000"


@contextmanager
def _short_waits_in_mysql(connection: Connection) -> Iterator[None]:
    """Let a connection to MySQL wait for locks for HURRIED_LOCK_SECONDS during the block."""
    _set_lock_wait(connection, HURRIED_LOCK_SECONDS)
    try:
        yield
    finally:
        with suppress(SQLAlchemyError):  # the pool drops a broken connection; the block's own error must be seen
            _set_lock_wait(connection, LOCK_SECONDS)


def _set_lock_wait(connection: Connection, seconds: int) -> None:
    connection.exec_driver_sql(f"SET {LOCK_WAITS.format(seconds)}")
