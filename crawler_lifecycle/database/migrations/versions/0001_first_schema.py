"""Revision 0001 creates the tables from `schema.py`, `flow_schema.py` and `manager_schema.py`.

Until the first release, a change to `schema.py` needs no new revision. Whoever adds the second revision replaces the
import from `schema.py` here by a copy of the released tables (docs/internals/extend.md, "A column").

MySQL commits every table and index separately. `checkfirst` leaves out tables and indexes from an interrupted upgrade.
"""

from alembic import op

from crawler_lifecycle.database.flow_schema import flows
from crawler_lifecycle.database.manager_schema import managers
from crawler_lifecycle.database.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    connection = op.get_bind()
    assert flows.metadata is managers.metadata is metadata  # with the imports, all tables are there
    for table in metadata.sorted_tables:
        table.create(connection, checkfirst=True)
        for index in table.indexes:
            index.create(connection, checkfirst=True)
