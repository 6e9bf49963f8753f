"""Pages of up to a thousand rows, each read or written by one statement.

`rows_as_table` gives a page to a statement as one JSON parameter. The database unpacks the parameter into a table, and
the statement joins this table.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Dialect,
    FromClause,
    Select,
    String,
    Update,
    bindparam,
    column,
    func,
    literal_column,
    select,
)
from sqlalchemy.types import TypeDecorator

from crawler_lifecycle.errors import PermanentError

T = TypeVar("T")
ROWS_IN_A_PAGE = 1000
TABLE_NAME = "page"
# parameters for statements built in advance
PAYLOAD, OWNER, NUMBERS = "page_rows", "page_owner", "page_numbers"
ChangeOrSelect = Update | Select[Any]


def pages(items: Sequence[T], most: int | None = None) -> Iterator[Sequence[T]]:
    """Yield the items in order, up to `most` or ROWS_IN_A_PAGE at a time."""
    size = most or ROWS_IN_A_PAGE
    for start in range(0, len(items), size):
        yield items[start : start + size]


def first_numbers(
    connection: Connection, statements: Sequence[Select[Any]], most: int, *, descending: bool = False
) -> tuple[set[int], int | None]:
    """Return the first numbers from all statements, each of which reads the same share of `most` numbers.

    Also return the number up to which the result is complete; None: the result has all numbers of the statements.
    """
    share, first, ends = max(1, most // max(1, len(statements))), set[int](), list[int]()
    for statement in statements:
        number = statement.selected_columns[0]
        page = statement.order_by(number.desc() if descending else number).limit(share)
        numbers: Sequence[int] = connection.scalars(page).all()
        first.update(numbers)
        if len(numbers) == share:
            ends.append(numbers[-1])
    if not ends:
        return first, None
    end = max(ends) if descending else min(ends)
    return {number for number in first if (number >= end if descending else number <= end)}, end


def rows_as_table(connection: Connection, columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]) -> FromClause:
    """Return a table with these rows. The table's columns have the names and types of the given columns."""
    return _table(connection, columns, payload_of(connection, columns, rows))


class PagedStatement:
    """A statement that locks or changes a page of rows, built once: a building takes longer than an execution.

    The first two columns are the beginning of the rows' primary key, and the first column has a single value. MySQL
    gets both also as lists: otherwise MySQL reads a small table as a whole, and waits for locks on further rows.
    """

    def __init__(
        self, columns: Sequence[Column[Any]], build: Callable[[Any], ChangeOrSelect], *, locks: bool = True
    ) -> None:
        """`build` returns the statement for a page with the columns. `locks`: whether the statement locks rows."""
        self._columns = columns
        self._build = build
        self._locks = locks
        self._built: dict[str, ChangeOrSelect] = {}  # by database

    def __call__(
        self, connection: Connection, rows: Sequence[Sequence[Any]], **values: Any
    ) -> CursorResult[*tuple[Any, ...]]:
        """Execute the statement for the rows. `values`: further parameters, or an UPDATE's values by column."""
        database = connection.dialect.name
        if database not in self._built:
            self._built[database] = self._statement(connection)
        values[PAYLOAD] = payload_of(connection, self._columns, rows)
        if self._has_lists(connection):
            values |= {OWNER: rows[0][0], NUMBERS: [row[1] for row in rows]}
        return connection.execute(self._built[database], values)

    def _has_lists(self, connection: Connection) -> bool:
        return self._locks and connection.dialect.name == "mysql"

    def _statement(self, connection: Connection) -> ChangeOrSelect:
        page = _table(connection, self._columns, bindparam(PAYLOAD)).c
        statement = self._build(page)
        for key in self._columns[:2]:
            statement = statement.where(key == page[key.name])
        if self._has_lists(connection):
            owner, number = self._columns[:2]
            statement = statement.where(owner == bindparam(OWNER), number.in_(bindparam(NUMBERS, expanding=True)))
        return statement


def payload_of(connection: Connection, columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]) -> str:
    """Return the rows as JSON."""
    encoders = [_encoder(column, connection.dialect) for column in columns]
    prepared_rows = [
        [value if value is None else encode(value) for value, encode in zip(row, encoders, strict=True)] for row in rows
    ]
    return json.dumps(prepared_rows, ensure_ascii=False, separators=(",", ":"))


def _table(connection: Connection, columns: Sequence[Column[Any]], payload: Any) -> FromClause:
    if connection.dialect.name == "sqlite":
        return _sqlite_rows(columns, payload)
    return _mysql_rows(connection, columns, payload)


def _sqlite_rows(columns: Sequence[Column[Any]], payload: Any) -> FromClause:
    json_rows = func.json_each(payload).table_valued("value", name="each_row")
    fields = [
        func.json_extract(json_rows.c.value, f"$[{index}]", type_=field.type).label(field.name)
        for index, field in enumerate(columns)
    ]
    return select(*fields).subquery(TABLE_NAME)


def _mysql_rows(connection: Connection, columns: Sequence[Column[Any]], payload: Any) -> FromClause:
    quoted = connection.dialect.identifier_preparer.quote_identifier  # MySQL 8.0.17 and 8.0.18 reserve `member`
    fields = ", ".join(
        f"{quoted(field.name)} {_type_name(connection, field)} PATH '$[{index}]'" for index, field in enumerate(columns)
    )
    path: ColumnElement[str] = literal_column(f"'$[*]' COLUMNS ({fields})")
    return func.JSON_TABLE(payload, path).table_valued(*(column(c.name, c.type) for c in columns), name=TABLE_NAME)


def _type_name(connection: Connection, field: Column[Any]) -> str:
    name = field.type.compile(dialect=connection.dialect)
    plain_type = field.type.impl if isinstance(field.type, TypeDecorator) else field.type
    # compare texts as the tables do: the default collation ignores case
    return f"{name} COLLATE utf8mb4_bin" if isinstance(plain_type, String) else name


def _encoder(field: Column[Any], dialect: Dialect) -> Callable[[Any], Any]:
    """Return the function from a value to its form in JSON: as the column stores the value, and a time as text."""
    if not isinstance(field.type, TypeDecorator):
        if isinstance(field.type, String) and field.type.length:
            return partial(_text_of_column, field, field.type.length)
        return int if isinstance(field.type, Boolean) else _unchanged  # the databases disagree about `true` in JSON
    as_stored = field.type.process_bind_param

    def encode(value: Any) -> Any:
        stored = as_stored(value, dialect)
        return stored.isoformat(" ", "microseconds") if isinstance(stored, datetime) else stored

    return encode


def _text_of_column(field: Column[Any], longest: int, value: str) -> str:
    """Return the text. Raise PermanentError for a text longer than its column: in a page MySQL makes it NULL."""
    if len(value) > longest:
        raise PermanentError(f"{field.name}: {len(value)} characters, expected {longest} at most")
    return value


def _unchanged(value: Any) -> Any:
    return value
