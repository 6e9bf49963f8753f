"""The commands for operators: db upgrade, doctor, accept-namespace."""

import asyncio
from pathlib import Path

import click

from crawler_lifecycle.cli.common import plain, print_json, standard_options
from crawler_lifecycle.cli.failures import NOT_READY, Commands
from crawler_lifecycle.errors import NotReady


@click.group("db", cls=Commands)
def database() -> None:
    """Manage the schema of the database."""


@database.command()
@standard_options
def upgrade(state: Path | None, as_json: bool) -> None:
    """Make the schema, or upgrade the schema to the version of this program.

    \b
    Examples:
      crawlctl db upgrade
      CRAWLER_DATABASE__URL=mysql+pymysql://crawler:secret@db/crawler crawlctl db upgrade
    """
    from crawler_lifecycle.adapters.sql import migrate
    from crawler_lifecycle.adapters.sql.schema import REVISION
    from crawler_lifecycle.control.installation import locate

    located = locate(state)
    settings = located.settings
    if settings.database.url is None:
        try:
            settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise NotReady(
                f"{settings.state} cannot be the state folder: {error.strerror}; choose another with --state"
            ) from error
    installation = migrate.upgrade(settings.database_url)
    if as_json:
        print_json({"database": located.database_name, "revision": REVISION, "installation": installation})
    else:
        click.echo(f"{located.database_name} is at revision {REVISION}, installation {installation}")


@click.command()
@standard_options
def doctor(state: Path | None, as_json: bool) -> None:
    """Check every part and print remedies. The exit status is 4 after a problem."""
    from crawler_lifecycle.control.control import Control

    checks = asyncio.run(Control.open(state).doctor())
    if as_json:
        print_json(checks)
    else:
        for check in checks:
            mark = click.style("ok  ", fg="green") if check.ok else click.style("mend", fg="red")
            click.echo(f"{mark}  {check.part}: {plain(check.line)}")
    if not all(check.ok for check in checks):
        raise click.exceptions.Exit(NOT_READY)


@click.command()
@standard_options
def accept_namespace(state: Path | None, as_json: bool) -> None:
    """Record the present Kubernetes namespace as the namespace of this installation.

    The installation remembers its namespace by the uid. With another kubeconfig, or after a cluster was made anew, a
    namespace with the same name shows no jobs: no job counts as gone until this command is given.

    \b
    Example:
      crawlctl accept-namespace
    """
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.errors import BadInput
    from crawler_lifecycle.ports import KnowsItsPlace

    cluster = Context.open(state).parts.cluster
    if not isinstance(cluster, KnowsItsPlace):
        raise BadInput("CRAWLER_CLUSTER__KIND", "jobs do not run on Kubernetes: there is no namespace to accept")
    before, now = cluster.accept_place()
    if as_json:
        print_json({"before": before and before.namespace_uid, "now": now.namespace_uid, "namespace": now.namespace})
    elif before == now:
        click.echo(f"namespace {now.namespace} ({now.namespace_uid}) was known already")
    else:
        known = f", before it was {before.namespace} ({before.namespace_uid})" if before else ""
        click.echo(f"namespace {now.namespace} ({now.namespace_uid}) is the one of this installation now{known}")
