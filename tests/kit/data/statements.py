"""Count the statements that a database gets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from crawler_lifecycle.database.database import Database


@contextmanager
def counted(database: Database) -> Iterator[list[str]]:
    """The statements sent meanwhile, as the database gets them."""
    statements: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(database.engine, "before_cursor_execute", count)


def plan_of(database: Database, read: Callable[[], object]) -> str:
    """Return SQLite's plans of the statements about runs and labels."""
    statements = list[tuple[str, Any]]()

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        statements.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    read()
    event.remove(database.engine, "before_cursor_execute", note)
    with database.read() as connection:
        plans = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values).all() for text, values in statements]
    return "\n".join(row[3] for plan in plans for row in plan)
