"""Changes of the schema that do nothing when they are done already.

MySQL commits every change of a table by itself and our revision is written after the last change. So a migration that
died half-way is made again from its beginning. The lock of `migrate.upgrade` keeps other migrations away between the
inspection and the change.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op


def create_table(name: str, *items: Any, **options: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *items, **options)


def create_index(name: str, table: str, columns: Sequence[str]) -> None:
    """Create the index unless the table has it; MySQL has no IF NOT EXISTS for indexes."""
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns)
