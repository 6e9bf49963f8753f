"""Script that Alembic runs at every upgrade: the migrations get the connection and transaction of `migrate.upgrade`."""

from alembic import context

from crawler_lifecycle.database.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
