"""Column types for the tables in `schema.py`: SQLite and MySQL give back times, enums, texts and models as written.

`is_text` compares texts alike in all databases.
"""

import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Enum,
    Integer,
    LargeBinary,
    String,
    Text,
    and_,
    bindparam,
    literal_column,
)
from sqlalchemy.dialects.mysql import BINARY, DATETIME, LONGBLOB, MEDIUMTEXT
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from crawler_lifecycle.base.base import Message

EnumClass = TypeVar("EnumClass", bound=StrEnum)
Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite gives numbers to new rows only if the key is an INTEGER
FAST = 1  # level of compression
Document = Text().with_variant(MEDIUMTEXT, "mysql")  # TEXT in MySQL ends at 64 KiB


def is_text(column: Column[str], text: str) -> ColumnElement[bool]:
    """Return the condition for rows with exactly this text.

    MySQL ignores blanks at a text's end in comparisons; before a dot, blanks count. The first condition uses the index.
    """
    return and_(column == text, column + "." == f"{text}.")


class UtcDateTime(TypeDecorator[datetime]):
    """A time: Python code uses times with the zone UTC, the column holds them with microseconds and without a zone."""

    impl = DateTime().with_variant(DATETIME(fsp=6), "mysql")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value}: a time without its zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Uid(TypeDecorator[str]):
    """A UUID in 16 bytes."""

    impl = LargeBinary(16).with_variant(BINARY(16), "mysql")
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> bytes | None:
        return None if value is None else UUID(value).bytes

    def process_result_value(self, value: bytes | None, _dialect: Dialect) -> str | None:
        return None if value is None else str(UUID(bytes=value))


class ShortText(TypeDecorator[str]):
    """Text from outside with any length and content, cut after `length` characters."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.longest = length

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else storable(value)[: self.longest]


class ExactText(TypeDecorator[str]):
    """Text compared with the blanks at its end. MySQL ignores these blanks, but not before a dot."""

    impl = String
    cache_ok = True

    def __init__(self, longest: int) -> None:
        super().__init__(longest + 1)

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else f"{value}."

    def process_result_value(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else value.removesuffix(".")


class LongText(TypeDecorator[str]):
    """Text from outside, cut to `longest` characters: the last characters if `keep_end`, otherwise the first."""

    impl = Document
    cache_ok = True

    def __init__(self, longest: int, *, keep_end: bool = False) -> None:
        super().__init__()
        self.longest = longest
        self.keep_end = keep_end

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        if value is None:
            return None
        return storable(value)[-self.longest :] if self.keep_end else storable(value)[: self.longest]


class JsonModel(TypeDecorator[Message]):
    """A model from the contract, stored as JSON."""

    impl = Document
    cache_ok = True

    def __init__(self, kind: type[Message]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Message | None, _dialect: Dialect) -> str | None:
        return None if value is None else value.model_dump_json(exclude_none=True)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Message | None:
        return None if value is None else self.kind.model_validate_json(value)


class Packed(TypeDecorator[str]):
    """A long ASCII text, stored compressed."""

    impl = LargeBinary().with_variant(LONGBLOB, "mysql")
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> bytes | None:
        return None if value is None else zlib.compress(value.encode(), FAST)

    def process_result_value(self, value: bytes | None, _dialect: Dialect) -> str | None:
        return None if value is None else zlib.decompress(value).decode()


class Json(TypeDecorator[Any]):
    """Any JSON value, stored as text; None is NULL."""

    impl = Document
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


def storable(text: str) -> str:
    """Return a text fit for both databases: without NUL, and without halves of surrogate pairs."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def stored_enum(enum: type[EnumClass]) -> Enum:
    """Return the type for a column with the enum's values as text: a new member needs no migration."""
    return Enum(enum, native_enum=False, length=32, values_callable=lambda members: [item.value for item in members])


def growing(name: str, clock: Callable[[], datetime]) -> Column[datetime]:
    """Return a column whose time grows with every UPDATE, although clocks differ and an UPDATE may wait for its lock.

    The new value is the later of the writer's clock and the old value plus a microsecond. The database computes the
    value while the row is locked.
    """
    writer_time = bindparam(None, callable_=clock, type_=UtcDateTime())
    new_value = _LaterTime(writer_time, literal_column(name))
    return Column(name, UtcDateTime, nullable=False, default=clock, onupdate=new_value)


class _LaterTime(FunctionElement[datetime]):
    """SQL expression for the later of two times, after the second time has got one more microsecond."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(_LaterTime, "mysql")
def _later_time_in_mysql(element: _LaterTime, compiler: SQLCompiler, **options: Any) -> str:
    writer_time, old_time = (compiler.process(clause, **options) for clause in element.clauses)
    return f"GREATEST(CAST({writer_time} AS DATETIME(6)), {old_time} + INTERVAL 1 MICROSECOND)"


@compiles(_LaterTime, "sqlite")
def _later_time_in_sqlite(element: _LaterTime, compiler: SQLCompiler, **options: Any) -> str:
    """Compile for SQLite, where a time is text such as 2026-01-31 10:20:30.123456.

    SQLite's own functions keep only three digits after the point. So the microsecond is added to the last six
    characters as a number, and a carry is added to the seconds.
    """
    writer_time, old_time = (compiler.process(clause, **options) for clause in element.clauses)
    old_seconds, microseconds = f"substr({old_time}, 1, 19)", f"(substr({old_time}, 21, 6) + 1)"
    seconds = f"datetime({old_seconds}, ({microseconds} / 1000000) || ' seconds')"
    return f"max({writer_time}, printf('%s.%06d', {seconds}, {microseconds} % 1000000))"


class TimeBetween(FunctionElement[int]):
    """SQL expression for the milliseconds from one time to another; NULL if either time is NULL."""

    type = BigInteger()
    inherit_cache = True


@compiles(TimeBetween, "mysql")
def _between_in_mysql(element: TimeBetween, compiler: SQLCompiler, **options: Any) -> str:
    since, until = (compiler.process(clause, **options) for clause in element.clauses)
    return f"TIMESTAMPDIFF(MICROSECOND, {since}, {until}) DIV 1000"


@compiles(TimeBetween, "sqlite")
def _between_in_sqlite(element: TimeBetween, compiler: SQLCompiler, **options: Any) -> str:
    since, until = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(round((julianday({until}) - julianday({since})) * 86400e3) AS INTEGER)"
