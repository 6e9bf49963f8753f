"""Count the statements that a database gets."""

from collections.abc import Iterator
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
