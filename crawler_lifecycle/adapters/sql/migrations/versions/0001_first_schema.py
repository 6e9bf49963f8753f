"""The first schema, as `schema.py` describes its tables until a version is released.

A second revision needs a copy of the released tables here (docs/howto/extend.md, "A column").
MySQL commits each table and index by itself: an upgrade that died half-way creates only what is missing.
"""

from alembic import op

from crawler_lifecycle.adapters.sql.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    connection = op.get_bind()
    for table in metadata.sorted_tables:
        table.create(connection, checkfirst=True)
        for index in table.indexes:
            index.create(connection, checkfirst=True)
