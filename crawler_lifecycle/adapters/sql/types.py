"""Column types: both databases give back times, words and texts as they were written.

`growing` makes a column whose time grows with every write, although clocks differ and a write may wait for its lock.
The value is the writer's clock, or a microsecond after the row's value, whichever is later. The database computes the
value while the row is locked.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, DateTime, Dialect, Enum, Integer, String, Text, bindparam, literal_column
from sqlalchemy.dialects.mysql import DATETIME, MEDIUMTEXT
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from crawler_lifecycle.contract.base import Message

Word = TypeVar("Word", bound=StrEnum)

Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite gives numbers to new rows only if the key is an INTEGER
Document = Text().with_variant(MEDIUMTEXT, "mysql")


class UtcDateTime(TypeDecorator[datetime]):
    """A time: aware in UTC outside, naive with microseconds inside."""

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


class Line(TypeDecorator[str]):
    """Text from outside with any length and content, cut where the column ends."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.longest = length

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else storable(value)[: self.longest]


class Lines(TypeDecorator[str]):
    """Longer text from outside. Text above the limit keeps its end if `keep_end`, otherwise its beginning."""

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


class Model(TypeDecorator[Message]):
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


def words(kind: type[Word]) -> Enum:
    """Return the type for a column of such words, stored as text: a new word needs no migration."""
    return Enum(kind, native_enum=False, length=16, values_callable=lambda members: [word.value for word in members])


class later(FunctionElement[datetime]):  # noqa: N801 (the name of the SQL function)
    type = UtcDateTime()
    inherit_cache = True


def growing(name: str, clock: Callable[[], datetime]) -> Column[datetime]:
    moment = bindparam(None, callable_=clock, type_=UtcDateTime())
    return Column(name, UtcDateTime, nullable=False, default=clock, onupdate=later(moment, literal_column(name)))


@compiles(later, "mysql")
def _mysql(element: later, compiler: SQLCompiler, **options: Any) -> str:
    moment, before = (compiler.process(clause, **options) for clause in element.clauses)
    return f"GREATEST(CAST({moment} AS DATETIME(6)), {before} + INTERVAL 1 MICROSECOND)"


@compiles(later, "sqlite")
def _sqlite(element: later, compiler: SQLCompiler, **options: Any) -> str:
    """Compile for SQLite, where a time is text with six digits after the point. SQLite's own functions keep only three
    digits, so the microsecond is added apart from the seconds.
    """
    moment, before = (compiler.process(clause, **options) for clause in element.clauses)
    second, micros = f"substr({before}, 1, 19)", f"(substr({before}, 21, 6) + 1)"
    carried = f"datetime({second}, ({micros} / 1000000) || ' seconds')"
    return f"max({moment}, printf('%s.%06d', {carried}, {micros} % 1000000))"
