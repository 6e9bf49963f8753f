"""Environment for Alembic: the connection and transaction from `migrate.upgrade`."""

from alembic import context

from crawler_lifecycle.adapters.sql.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
