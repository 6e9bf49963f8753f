"""How does Alembic run our migrations? In the transaction of whoever calls `migrate.upgrade`."""

from alembic import context

from crawler_lifecycle.adapters.sql.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
