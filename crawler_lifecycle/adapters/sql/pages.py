"""Pages with a thousand rows in a single statement: one JSON parameter, joined like a table."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, FromClause, String, column, func, literal_column, select
from sqlalchemy.types import TypeDecorator

T = TypeVar("T")
PAGE = 1000
ROWS = "page"


def pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PAGE):
        yield items[start : start + PAGE]


def rows_of(connection: Connection, columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]) -> FromClause:
    """Return a table with these rows. The table's columns have the names and types of the given columns."""
    prepared = [[_plain(value, kind, connection) for value, kind in zip(row, columns, strict=True)] for row in rows]
    payload = json.dumps(prepared, ensure_ascii=False, separators=(",", ":"))
    if connection.dialect.name == "sqlite":
        return _sqlite_rows(columns, payload)
    return _mysql_rows(connection, columns, payload)


def _sqlite_rows(columns: Sequence[Column[Any]], payload: str) -> FromClause:
    element = func.json_each(payload).table_valued("value", name="each_row")
    fields = [
        func.json_extract(element.c.value, f"$[{place}]", type_=field.type).label(field.name)
        for place, field in enumerate(columns)
    ]
    return select(*fields).subquery(ROWS)


def _mysql_rows(connection: Connection, columns: Sequence[Column[Any]], payload: str) -> FromClause:
    fields = ", ".join(
        f"{field.name} {_type_name(connection, field)} PATH '$[{place}]'" for place, field in enumerate(columns)
    )
    path: ColumnElement[str] = literal_column(f"'$[*]' COLUMNS ({fields})")
    return func.JSON_TABLE(payload, path).table_valued(*(column(c.name, c.type) for c in columns), name=ROWS)


def _type_name(connection: Connection, field: Column[Any]) -> str:
    name = field.type.compile(dialect=connection.dialect)
    kind = field.type.impl if isinstance(field.type, TypeDecorator) else field.type
    return f"{name} COLLATE utf8mb4_bin" if isinstance(kind, String) else name


def _plain(value: Any, field: Column[Any], connection: Connection) -> Any:
    if isinstance(field.type, TypeDecorator):
        value = field.type.process_bind_param(value, connection.dialect)
    return value.isoformat(" ", "microseconds") if isinstance(value, datetime) else value
