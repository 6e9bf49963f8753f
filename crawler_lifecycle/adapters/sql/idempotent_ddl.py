"""Schema changes that do nothing if they are done already.

MySQL commits every change to a table by itself, and the revision is written after the last change. A migration that
died in the middle therefore runs again from its beginning. The lock in `migrate.upgrade` keeps other migrations away
between inspection and change.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op


def create_table(name: str, *items: Any, **options: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *items, **options)


def create_index(name: str, table: str, columns: Sequence[str]) -> None:
    """Create the index unless the table has the index: MySQL has no IF NOT EXISTS for indexes."""
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns)
