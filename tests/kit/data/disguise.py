"""A MariaDB server that SQLAlchemy takes for MySQL, so that the statements for MySQL are compiled and run.

`TEST_DATABASE_AS=8.4.3` lets the private servers name this version; the cursor rewrites the few words that MariaDB does
not know. `TEST_STATEMENTS=FOLDER` writes all statements there, for `tests.mysql_grammar`.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from pymysql.cursors import Cursor

VERSION = os.environ.get("TEST_DATABASE_AS")
OPTIONS = (f"--version={VERSION}",) if VERSION else ()
STATEMENTS = os.environ.get("TEST_STATEMENTS")
FOR_MARIADB = [
    (re.compile("@@transaction_isolation"), "@@tx_isolation"),
    (re.compile(r" FOR (SHARE|UPDATE) OF [\w, ]+"), r" FOR \1"),
    (re.compile(" FOR SHARE"), " LOCK IN SHARE MODE"),
    (re.compile(r"max_execution_time = (\d+)000\b"), r"max_statement_time = \1"),
]
_written: set[str] = set()


class DisguisedCursor(Cursor):
    def execute(self, query: Any, args: Any = None) -> int:
        if isinstance(query, str):  # an INSERT of many rows comes from `executemany`, as bytes
            _write(query)
            for words, replacement in FOR_MARIADB:
                query = words.sub(replacement, query)
        return super().execute(query, args)

    def executemany(self, query: Any, args: Any) -> Any:
        _write(query)
        return super().executemany(query, args)


def _write(statement: str) -> None:
    """Write the statement into the folder, once."""
    if STATEMENTS is None or statement in _written:
        return
    _written.add(statement)
    name = hashlib.sha256(statement.encode()).hexdigest()[:32]
    Path(STATEMENTS, f"{name}.sql").write_text(statement)


CONNECT_ARGS: dict[str, Any] = {"cursorclass": DisguisedCursor} if VERSION else {}
