"""Databases for tests: SQLite files, and a real, private MariaDB server with its own data folder, socket and port.

`TEST_DATABASE_URL=mysql://root:secret@host:3306` names another server, by an account that may create databases and
accounts; the tests of outages and failovers have private servers all the same.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pymysql
import pytest
import sqlalchemy
from sqlalchemy import func, insert, select

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database import database as product
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.database.schema import histories, installation, metadata, task_histories
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunDetails, RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.runs.ports import NewRun
from crawler_lifecycle.stack.plan import free_ports
from tests.kit.data import disguise
from tests.kit.data.mysql_words import checked_names

BOTH = ("sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb))
# the driver reads all certificates of the system for each connection that could be encrypted: 45 ms
WITHOUT_TLS = "ssl_disabled=true"
# the administrator's address of the server that is named, if one is
NAMED_SERVER = sqlalchemy.make_url(os.environ["TEST_DATABASE_URL"]) if "TEST_DATABASE_URL" in os.environ else None
START_SECONDS = 30
STARTS = 3
PROGRAM_FOLDERS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
RELAXED = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--skip-log-bin",
    "--skip-name-resolve",
)


class CompiledStatements(dict[Any, Any]):
    """Statements compiled once for all engines of a kind. SQLAlchemy keeps them for each engine, and each test has one.

    A kind is a dialect with its reserved words: `checked_names` adds words.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._shared(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(self._shared(key), compiled)

    @staticmethod
    def _shared(key: Any) -> tuple[Any, ...]:
        dialect, *statement = key
        return dialect.name, len(dialect.identifier_preparer.reserved_words), *statement


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    compiled = CompiledStatements()

    def create_engine(*arguments: Any, **options: Any) -> sqlalchemy.Engine:
        if "connect_args" in options:
            options["connect_args"] |= disguise.CONNECT_ARGS
        return sqlalchemy.create_engine(*arguments, **options, execution_options={"compiled_cache": compiled})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product, "create_engine", create_engine)
        yield


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[int]:
    """The port of a server that lives as long as the test session (one for each of several test processes)."""
    if NAMED_SERVER is not None:
        yield NAMED_SERVER.port or 3306
        return
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    with running_mariadb(*RELAXED) as port:
        yield port


@pytest.fixture(scope="session")
def mariadb_url(mariadb_server: int) -> Iterator[str]:
    """A database on that server, with the schema."""
    name = "crawler" if NAMED_SERVER is None else f"crawler_{uuid4().hex}"
    url = with_parameters(create_database(mariadb_server, name), WITHOUT_TLS)
    upgrade(url)
    yield url
    if NAMED_SERVER is not None:
        execute(mariadb_server, f"DROP DATABASE {name}")


@pytest.fixture
def wide_mariadb(mariadb_url: str) -> Iterator[Database]:
    """MariaDB, empty, with connections for many acts at once."""
    empty(mariadb_url)
    database = Database(mariadb_url, pool_size=8)
    yield database
    database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of database in turn, with the schema and no rows."""
    if request.param == "sqlite":
        return copy_of(request.getfixturevalue("sqlite_template"), tmp_path)
    url: str = request.getfixturevalue("mariadb_url")
    empty(url)
    return url


@pytest.fixture(params=BOTH)
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Each kind of database in turn, without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'bare.db'}"
        return
    port, name = request.getfixturevalue("mariadb_server"), f"bare_{uuid4().hex}"
    yield create_database(port, name)
    execute(port, f"DROP DATABASE {name}")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    with checked_names(database):
        yield database
    database.close()


def copy_of(template: Path, folder: Path) -> str:
    path = folder / "crawler.db"
    shutil.copyfile(template, path)
    return f"sqlite:///{path}"


class MakeRun(Protocol):
    def __call__(self, tasks: int = 1, *, entry: Crawler | None = None, **request: Any) -> RunRecord: ...


@pytest.fixture
def make_run(database: Database) -> MakeRun:
    """Makes runs of that many tasks, all QUEUED; further arguments are fields of the request."""
    return maker_of_runs(database)


def maker_of_runs(database: Database) -> MakeRun:
    def make(tasks: int = 1, *, entry: Crawler | None = None, **request: Any) -> RunRecord:
        entry = entry or Crawler(name="books", command=["true"])
        asked = RunRequest(crawler=entry.name, **request)
        new = NewRun(asked, entry, tasks, workflow_id=f"crawl-{uuid4()}", first_execution_run_id=str(uuid4()))
        return SqlStore(database).runs.create(new)

    return make


def copy_run(database: Database, run_id: int, copies: int) -> None:
    """Copy a run with its tasks many times. The sums for limits lack the copies."""
    with database.read() as connection:
        run = connection.execute(select(histories).where(histories.c.id == run_id)).one()._asdict()
        stored = connection.execute(select(task_histories).where(task_histories.c.history_id == run_id))
        tasks = [row._asdict() for row in stored]
    for numbers in pages(range(copies)):
        copied = [run | _ids() for _ in numbers]
        with database.transaction() as connection:
            last = connection.scalar(select(func.max(histories.c.id))) or 0
            numbered = [copy | {"id": last + number} for number, copy in enumerate(copied, 1)]
            connection.execute(insert(histories), numbered)
            rows = [task | {"history_id": copy["id"]} for copy in numbered for task in tasks]
            connection.execute(insert(task_histories), rows)


def _ids() -> dict[str, object]:
    workflow_id = f"crawl-books-{uuid4()}"
    ids = {"workflow_id": workflow_id, "supervisor_workflow_id": workflow_id, "first_execution_run_id": str(uuid4())}
    return {**ids, "run_uid": str(uuid4())}


def in_substance(record: RunRecord | RunDetails) -> dict[str, Any]:
    """All but when it was last written: also a write that changes nothing is one."""
    exclude: Any = {"changed_at"} if isinstance(record, RunRecord) else {"run": {"changed_at"}}
    return record.model_dump(exclude=exclude)


def copy_file(source: Path, target: Path) -> None:
    """Copy a database as a backup or a restore does: the locks of a database in use are respected."""
    with closing(sqlite3.connect(source, timeout=30)) as origin, closing(sqlite3.connect(target, timeout=30)) as other:
        origin.backup(other)


def give_away(url: str) -> str:
    """All runs belong to another installation, as in a database that was restored or is shared; answers which."""
    database, other = Database(url, pool_size=2), str(uuid4())
    with database.transaction() as connection:
        connection.execute(histories.update().values(installation=other))
    database.close()
    return other


def ref_to(run: RunRecord) -> RunRef:
    """The run as its supervisor names it."""
    return RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=run.epoch)


def missing(what: str) -> None:
    """Tests that need it are skipped where people work, and fail where nothing may be skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def mariadb_is_installed() -> bool:
    return all(_mariadb_programs())


@contextmanager
def running_mariadb(*options: str) -> Iterator[int]:
    """The port of a private server with these options, gone with all its data afterwards."""
    with mariadb(*options) as server:
        yield server.port


@dataclass
class MariaDB:
    """A private server that can go away, and come back on its port with its data."""

    command: list[str]
    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for _ in range(STARTS):  # somebody may take the free port before the server does
            (self.port,) = free_ports(1)
            if self.serves():
                return
        raise AssertionError(f"mariadbd did not start:\n{self._log.read_text()[-3000:]}")

    def serves(self) -> bool:
        """Started, on the port that it has; whether it answers there."""
        here = self.folder
        place = [f"--socket={here}/s", f"--pid-file={here}/pid", "--bind-address=127.0.0.1", f"--port={self.port}"]
        with self._log.open("ab") as output:
            self.process = subprocess.Popen([*self.command, *place], stdout=output, stderr=output)
        if _answers(self.process, self.port):
            return True
        self.end(signal.SIGKILL)
        return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """In order, or at once."""
        assert self.process
        self.process.send_signal(number)
        try:
            self.process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"


@contextmanager
def mariadb(*options: str) -> Iterator[MariaDB]:
    make, serve = map(str, _mariadb_programs())
    with tempfile.TemporaryDirectory(prefix="maria-") as folder:
        account = ["--user=root"] if os.geteuid() == 0 else []
        # two that are made at once would take each other's temporary tables
        common = ["--no-defaults", f"--datadir={folder}/data", f"--tmpdir={folder}", *account]
        made = subprocess.run(
            [make, *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        server = MariaDB([serve, *common, *disguise.OPTIONS, *options], Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.end()


def _mariadb_programs() -> list[str | None]:
    return [shutil.which(name, path=PROGRAM_FOLDERS) for name in ("mariadb-install-db", "mariadbd")]


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            execute(port, "SELECT 1")
        except pymysql.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


def execute(port: int, statement: str) -> None:
    """A statement of the server's administrator."""
    with _administrator(port) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def _administrator(port: int) -> "pymysql.Connection[Any]":
    if NAMED_SERVER is None or port != NAMED_SERVER.port:
        return pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True, ssl_disabled=True)
    user, password = NAMED_SERVER.username or "root", NAMED_SERVER.password or ""
    return pymysql.connect(host=NAMED_SERVER.host, port=port, user=user, password=password, autocommit=True)


def kill(port: int, connection: int) -> None:
    """The server ends this connection of somebody's."""
    execute(port, f"KILL {connection}")


def cut(port: int, account: str) -> None:
    """The server ends all connections of this account."""
    with _administrator(port) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (account,))
        for (number,) in cursor.fetchall():
            with suppress(pymysql.OperationalError):  # it has ended meanwhile
                cursor.execute(f"KILL {number:d}")


@contextmanager
def locked(port: int) -> Iterator[None]:
    """Everybody may read, and every write waits, as during a backup."""
    with _administrator(port) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        yield


def set_read_only(port: int, *, is_so: bool) -> None:
    """For everybody but its administrator."""
    execute(port, f"SET GLOBAL read_only = {int(is_so)}")


def create_database(port: int, name: str, password: str | None = None) -> str:
    """With a password: for an account of its own."""
    execute(port, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    is_named = NAMED_SERVER is not None and port == NAMED_SERVER.port
    server = NAMED_SERVER if NAMED_SERVER and is_named else sqlalchemy.make_url(f"mysql://root@127.0.0.1:{port}")
    if password is not None:
        execute(port, f"CREATE USER IF NOT EXISTS {name}@'%' IDENTIFIED BY '{password}'")
        execute(port, f"GRANT ALL ON {name}.* TO {name}@'%'")
        server = server.set(username=name, password=password)
    return server.set(database=name).render_as_string(hide_password=False)


def with_parameters(url: str, parameters: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{parameters}"


def empty(url: str) -> None:
    """Delete all rows beside the installation's."""
    database = Database(url, pool_size=2)
    with database.transaction() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not installation:
                connection.execute(table.delete())
    database.close()
