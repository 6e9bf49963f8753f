"""Check that no statement uses a word that MySQL reserves as a name without quotes.

MariaDB, on which the tests run, reserves other words: a name `member` is a syntax error on MySQL 8.0.17 alone.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import event
from sqlalchemy.dialects.mysql.reserved_words import RESERVED_WORDS_MYSQL

from crawler_lifecycle.database.database import Database

RESERVED = RESERVED_WORDS_MYSQL | {"manual", "parallel", "qualify", "tablesample"}  # 8.0, and since 8.4
# the reserved words that the statements use as words of the language
LANGUAGE = re.split(
    r"\s+",
    """
    all and as asc between bigint by case collate create delete desc describe distinct div double else
    exists false for force from group ignore in index inner insert integer interval into is join json_table
    kill left like limit lock mediumtext not null of on or order outer over partition primary read
    row_number select set show straight_join table then true union update values varchar when where
    """.strip(),
)
QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|%\(\w+\)s|@@?\w+")


@cache
def reserved_names(statement: str) -> set[str]:
    """Return the reserved words in the statement that are neither quoted nor words of the language."""
    words = re.findall(r"[a-z_]\w*", QUOTED.sub(" ", statement.lower()))
    return RESERVED.intersection(words).difference(LANGUAGE)


@contextmanager
def checked_names(database: Database) -> Iterator[None]:
    """Fail at the end if a statement sent to MariaDB meanwhile has an unquoted reserved name."""
    names: set[str] = set()

    def check(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        names.update(reserved_names(statement))

    if database.engine.dialect.name != "mysql":
        yield
        return
    with database.engine.connect():  # SQLAlchemy learns which server it is, and quotes what MariaDB reserves
        quoting = database.engine.dialect.identifier_preparer
        quoting.reserved_words = quoting.reserved_words | RESERVED  # as on MySQL
    event.listen(database.engine, "before_cursor_execute", check)
    yield
    event.remove(database.engine, "before_cursor_execute", check)
    assert not names, f"names that MySQL reserves, without quotes: {sorted(names)}"
