"""The commands for operators: db upgrade, doctor, accept-namespace, and the tokens of the HTTP API."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.assembly.direct import open_control, open_parts
from crawler_lifecycle.console.common import plain, print_json, standard_options, with_state
from crawler_lifecycle.console.failures import NOT_READY, Commands
from crawler_lifecycle.errors import NotReady

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crawler_lifecycle.http.tokens import Tokens
    from crawler_lifecycle.model.answers import Check

# rights for a token: only `operate` allows changes, and only `results` shows results of flows' jobs
SCOPES = click.Choice(["read", "operate", "results"])


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
    from crawler_lifecycle.database import migrate
    from crawler_lifecycle.database.schema import REVISION
    from crawler_lifecycle.settings.installation import locate

    target = locate(state)
    settings = target.settings
    if settings.database.url is None:
        try:
            settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise NotReady(
                f"{settings.state} cannot be the state folder: {error.strerror}; choose another with --state"
            ) from error
    installation_id = migrate.upgrade(settings.database_url)
    if as_json:
        print_json({"database": target.database_name, "revision": REVISION, "installation": installation_id})
    else:
        click.echo(f"{target.database_name} is at revision {REVISION}, installation {installation_id}")


@click.command()
@standard_options
def doctor(state: Path | None, as_json: bool) -> None:
    """Check every part and print remedies. The exit status is 4 after a problem."""

    checks = asyncio.run(open_control(state).doctor())
    if as_json:
        print_json(checks)
    else:
        for line in _doctor_lines(checks):
            click.echo(line)
    if not all(check.ok for check in checks):
        raise click.exceptions.Exit(NOT_READY)


def _doctor_lines(checks: "Sequence[Check]") -> "Iterator[str]":
    """Yield a line for every part. A faulty part is followed by the parts without a check because of the fault."""
    for check in checks:
        if check.because_of is not None:
            continue
        mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
        yield f"{mark}  {check.part}: {plain(with_state(check.line))}"
        if unchecked := [other.part for other in checks if other.because_of == check.part]:
            yield f"      not checked because of this: {', '.join(unchecked)}"


@click.command()
@standard_options
def accept_namespace(state: Path | None, as_json: bool) -> None:
    """Accept the present Kubernetes namespace as the installation's.

    The installation remembers its namespace by the uid. With another kubeconfig, or after a cluster was made anew, a
    namespace with the same name shows no jobs: no job counts as gone until this command is given.

    \b
    Example:
      crawlctl accept-namespace
    """
    from crawler_lifecycle.clusters.ports import KnowsItsPlace
    from crawler_lifecycle.errors import BadInput

    cluster = open_parts(state).cluster
    if not isinstance(cluster, KnowsItsPlace):
        raise BadInput("CRAWLER_CLUSTER__KIND", "jobs do not run on Kubernetes: there is no namespace to accept")
    before, now = cluster.accept_place()
    earlier_uid = before.namespace_uid if before else None
    if as_json:
        print_json({"before": earlier_uid, "now": now.namespace_uid, "namespace": now.namespace})
    elif before == now:
        click.echo(f"namespace {now.namespace} ({now.namespace_uid}) is the installation's already")
    else:
        earlier = f", before it was {before.namespace} ({before.namespace_uid})" if before else ""
        click.echo(f"namespace {now.namespace} ({now.namespace_uid}) is now the installation's{earlier}")


@click.group("token", cls=Commands)
def token() -> None:
    """Manage the tokens of the HTTP API.

    Only hashes are kept, in the file CRAWLER_API__TOKENS (default: in the state folder). A change has effect from the
    next request on.
    """


@token.command("create")
@click.argument("name")
@click.option("--scope", "scopes", type=SCOPES, multiple=True, default=["read"], show_default=True,
              help="Right of the token; repeatable.")  # fmt: skip
@standard_options
def create(name: str, scopes: tuple[str, ...], state: Path | None, as_json: bool) -> None:
    """Make a token and print its text, which cannot be shown again.

    \b
    Examples:
      crawlctl token create dashboard
      crawlctl token create shop-backend --scope read --scope operate
    """
    from crawler_lifecycle.http.tokens import Scope

    secret = _tokens(state).make(name, [Scope(scope) for scope in scopes])
    if as_json:
        print_json({"name": name, "scopes": sorted(set(scopes)), "token": secret})
    else:
        click.echo(secret)


@token.command("list")
@standard_options
def list_tokens(state: Path | None, as_json: bool) -> None:
    """List the names and scopes of tokens."""
    from crawler_lifecycle.console.words import rfc3339

    tokens = _tokens(state).all()
    if as_json:
        print_json([token.model_dump(exclude={"hash"}) for token in tokens])
        return
    for token in tokens:
        click.echo(f"{token.name:24} {','.join(token.scopes):14} {rfc3339(token.created_at)}")
    if not tokens:
        click.echo("No tokens: the API refuses every request.")


@token.command("revoke")
@click.argument("name")
@standard_options
def revoke(name: str, state: Path | None, as_json: bool) -> None:
    """Revoke a token: its next request is refused."""
    _tokens(state).revoke(name)
    if as_json:
        print_json({"name": name, "revoked": True})
    else:
        click.echo(f"{name} is revoked")


def _tokens(state: Path | None) -> "Tokens":
    from crawler_lifecycle.http.tokens import Tokens
    from crawler_lifecycle.settings.installation import locate

    return Tokens(locate(state).settings.tokens_file)
