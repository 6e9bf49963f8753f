"""New databases for benchmarks. MariaDB runs with its installed settings, so that every commit reaches the disk."""

from collections.abc import Callable, Iterable
from contextlib import closing
from tempfile import TemporaryDirectory

from bench.table import Table
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from tests.kit.data.databases import create_database, mariadb_is_installed, running_mariadb

AS_INSTALLED = ("--skip-log-bin", "--skip-name-resolve")
Row = tuple[object, ...]
Rows = Callable[[Database], Iterable[Row]]


def on_each(columns: tuple[str, ...], rows: Rows) -> Table:
    with TemporaryDirectory(prefix="bench-database-") as folder:
        measured = _on("SQLite", f"sqlite:///{folder}/crawler.db", rows)
    if mariadb_is_installed():
        with running_mariadb(*AS_INSTALLED) as port:
            measured += _on("MariaDB", create_database(port, "crawler"), rows)
    return Table(("database", *columns), measured)


def _on(name: str, url: str, rows: Rows) -> list[Row]:
    upgrade(url)
    with closing(Database(url)) as database:
        return [(name, *row) for row in rows(database)]
