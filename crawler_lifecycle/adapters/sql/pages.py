"""Pages of up to a thousand rows, each read or written by one statement.

`rows_as_table` gives a page to a statement as one JSON parameter. The database unpacks the parameter into a table, and
the statement joins this table.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, FromClause, String, column, func, literal_column, select
from sqlalchemy.types import TypeDecorator

T = TypeVar("T")
ROWS_IN_A_PAGE = 1000
TABLE_NAME = "page"


def pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in order, up to ROWS_IN_A_PAGE at a time."""
    for start in range(0, len(items), ROWS_IN_A_PAGE):
        yield items[start : start + ROWS_IN_A_PAGE]


def rows_as_table(connection: Connection, columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]) -> FromClause:
    """Return a table with these rows. The table's columns have the names and types of the given columns."""
    prepared_rows = [
        [_as_json(value, field, connection) for value, field in zip(row, columns, strict=True)] for row in rows
    ]
    payload = json.dumps(prepared_rows, ensure_ascii=False, separators=(",", ":"))
    if connection.dialect.name == "sqlite":
        return _sqlite_rows(columns, payload)
    return _mysql_rows(connection, columns, payload)


def _sqlite_rows(columns: Sequence[Column[Any]], payload: str) -> FromClause:
    json_rows = func.json_each(payload).table_valued("value", name="each_row")
    fields = [
        func.json_extract(json_rows.c.value, f"$[{index}]", type_=field.type).label(field.name)
        for index, field in enumerate(columns)
    ]
    return select(*fields).subquery(TABLE_NAME)


def _mysql_rows(connection: Connection, columns: Sequence[Column[Any]], payload: str) -> FromClause:
    fields = ", ".join(
        f"{field.name} {_type_name(connection, field)} PATH '$[{index}]'" for index, field in enumerate(columns)
    )
    path: ColumnElement[str] = literal_column(f"'$[*]' COLUMNS ({fields})")
    return func.JSON_TABLE(payload, path).table_valued(*(column(c.name, c.type) for c in columns), name=TABLE_NAME)


def _type_name(connection: Connection, field: Column[Any]) -> str:
    name = field.type.compile(dialect=connection.dialect)
    plain_type = field.type.impl if isinstance(field.type, TypeDecorator) else field.type
    # compare texts as the tables do: the default collation ignores case
    return f"{name} COLLATE utf8mb4_bin" if isinstance(plain_type, String) else name


def _as_json(value: Any, field: Column[Any], connection: Connection) -> Any:
    """Return the value as JSON can hold it: as the column stores the value, and a time as text."""
    if isinstance(field.type, TypeDecorator):
        value = field.type.process_bind_param(value, connection.dialect)
    if isinstance(value, bool):  # the databases disagree about `true` in JSON
        return int(value)
    return value.isoformat(" ", "microseconds") if isinstance(value, datetime) else value
