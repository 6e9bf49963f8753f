"""How does a migration go on that died half-way? By being made again from its beginning.

MySQL commits every change of a table by itself, and its revision is written down after the last one. So each step here
does nothing if it is done already. Whoever migrates holds a lock: between the look and the step nobody comes.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op


def create_table(name: str, *items: Any, **options: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *items, **options)


def create_index(name: str, table: str, columns: Sequence[str]) -> None:
    """MySQL has no IF NOT EXISTS for it."""
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns)
