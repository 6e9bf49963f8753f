"""Pages of rows and of numbers.

MySQL's JSON_TABLE makes a text that is longer than its column NULL, and MariaDB cuts it.
"""

from typing import Any

import pytest
from sqlalchemy import Column, Integer, String, select

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.pages import first_numbers, rows_as_table
from crawler_lifecycle.database.types import LongText, ShortText
from crawler_lifecycle.errors import PermanentError

NAME: Column[Any] = Column("name", String(36))
REASON: Column[Any] = Column("reason", ShortText(36))
MESSAGE: Column[Any] = Column("message", LongText(36))
TAIL: Column[Any] = Column("tail", LongText(36, keep_end=True))
LONG = "é" * 36 + "!"


def read(database: Database, column: Column[Any], text: str) -> object:
    with database.read() as connection:
        page = rows_as_table(connection, [column], [(text,), (None,)])
        first, second = connection.scalars(select(page.c[column.name])).all()
    assert second is None
    return first


@pytest.mark.parametrize("column", [NAME, REASON, MESSAGE, TAIL], ids=lambda column: column.name)
def test_a_text_as_long_as_its_column_is_whole(database: Database, column: Column[Any]) -> None:
    assert read(database, column, LONG[:36]) == LONG[:36]


def test_a_longer_text_is_refused(database: Database) -> None:
    with pytest.raises(PermanentError, match="name: 37 characters, expected 36 at most"):
        read(database, NAME, LONG)


@pytest.mark.parametrize("column", [REASON, MESSAGE, TAIL], ids=lambda column: column.name)
def test_a_longer_text_from_outside_is_cut(database: Database, column: Column[Any]) -> None:
    assert read(database, column, LONG) == (LONG[1:] if column is TAIL else LONG[:36])


@pytest.mark.parametrize(("most", "first", "end"), [(2, {1}, 1), (6, {1, 2, 5}, 5), (9, {1, 2, 5, 6}, None)])
def test_each_statement_reads_a_number_at_least(
    database: Database, most: int, first: set[int], end: int | None
) -> None:
    """With more statements than numbers, their share was none, and an IndexError followed."""
    number: Column[Any] = Column("number", Integer)
    with database.read() as connection:
        tables = [rows_as_table(connection, [number], [(n,) for n in numbers]) for numbers in ((1, 5), (2, 6), ())]
        statements = [select(table.c.number) for table in tables]
        assert first_numbers(connection, statements, most) == (first, end)
