"""The commands for tokens of the HTTP API: create, list, revoke."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import print_json, standard_options
from crawler_lifecycle.cli.failures import Commands

if TYPE_CHECKING:
    from crawler_lifecycle.services.api.tokens import Tokens

SCOPES = click.Choice(["read", "operate"])


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
    from crawler_lifecycle.services.api.tokens import Scope

    secret = _tokens(state).make(name, [Scope(scope) for scope in scopes])
    if as_json:
        print_json({"name": name, "scopes": sorted(set(scopes)), "token": secret})
    else:
        click.echo(secret)


@token.command("list")
@standard_options
def list_tokens(state: Path | None, as_json: bool) -> None:
    """List the names and scopes of tokens."""
    from crawler_lifecycle.cli.words import rfc3339

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
    from crawler_lifecycle.control.installation import locate
    from crawler_lifecycle.services.api.tokens import Tokens

    return Tokens(locate(state).settings.tokens_file)
