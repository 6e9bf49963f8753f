"""A column whose time grows with every write, although clocks differ and a write may wait for its lock.

The value is the writer's clock, or a microsecond after the row's value, whichever is later. The database computes the
value while the row is locked.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Column, bindparam, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from crawler_lifecycle.adapters.sql.types import UtcDateTime


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
    """Compile for SQLite, where a moment is text with six digits after the point: its functions know three."""
    moment, before = (compiler.process(clause, **options) for clause in element.clauses)
    second, micros = f"substr({before}, 1, 19)", f"(substr({before}, 21, 6) + 1)"
    carried = f"datetime({second}, ({micros} / 1000000) || ' seconds')"
    return f"max({moment}, printf('%s.%06d', {carried}, {micros} % 1000000))"
