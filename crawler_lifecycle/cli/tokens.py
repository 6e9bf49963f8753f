"""Commands about who may use the HTTP API: token create, list, revoke."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.common import json_option, print_json, state_option
from crawler_lifecycle.cli.failures import Commands

if TYPE_CHECKING:
    from crawler_lifecycle.services.api.tokens import Tokens

SCOPES = click.Choice(["read", "operate"])


@click.group("token", cls=Commands)
def token() -> None:
    """Who may use the HTTP API.

    Only hashes are kept, in the file CRAWLER_API__TOKENS (default: in the state folder). What is changed here counts
    from the next request on.
    """


@token.command("create")
@click.argument("name")
@click.option("--scope", "scopes", type=SCOPES, multiple=True, default=["read"], show_default=True,
              help="What it may do; may be repeated.")  # fmt: skip
@state_option
@json_option
def create(name: str, scopes: tuple[str, ...], state: Path | None, as_json: bool) -> None:
    """Makes a token and prints it, this one time.

    \b
    Examples:
      crawlctl token create dashboard
      crawlctl token create shop-backend --scope read --scope operate
    """
    from crawler_lifecycle.services.api.tokens import Scope

    made = _tokens(state).make(name, [Scope(each) for each in scopes])
    if as_json:
        print_json({"name": name, "scopes": sorted(set(scopes)), "token": made})
    else:
        click.echo(made)


@token.command("list")
@state_option
@json_option
def list_tokens(state: Path | None, as_json: bool) -> None:
    """The tokens' names and scopes."""
    from crawler_lifecycle.cli.times import rfc3339

    found = _tokens(state).all()
    if as_json:
        print_json([each.model_dump(exclude={"hash"}) for each in found])
        return
    for each in found:
        click.echo(f"{each.name:24} {','.join(each.scopes):14} {rfc3339(each.created_at)}")
    if not found:
        click.echo("No tokens: nobody can use the API.")


@token.command("revoke")
@click.argument("name")
@state_option
@json_option
def revoke(name: str, state: Path | None, as_json: bool) -> None:
    """Takes a token back: its next request is refused."""
    _tokens(state).revoke(name)
    if as_json:
        print_json({"name": name, "revoked": True})
    else:
        click.echo(f"{name} is revoked")


def _tokens(state: Path | None) -> "Tokens":
    from crawler_lifecycle.control.installation import locate
    from crawler_lifecycle.services.api.tokens import Tokens

    return Tokens(locate(state).settings.tokens_file)
