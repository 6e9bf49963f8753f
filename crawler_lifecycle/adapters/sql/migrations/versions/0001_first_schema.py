"""Revision 0001 creates the tables from `schema.py`.

Until the first release, a change to `schema.py` needs no new revision. Before a second revision, a copy with the
released tables replaces the import from `schema.py` here (docs/howto/extend.md, "A column").
MySQL commits every table and index by itself. `checkfirst` lets an upgrade that died half-way create only the rest.
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
