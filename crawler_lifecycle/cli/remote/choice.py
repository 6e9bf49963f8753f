"""Chooses between database and HTTP API: by `--api` and `--state`, then by `CRAWLER_REMOTE__URL`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.errors import BadInput

if TYPE_CHECKING:
    from crawler_lifecycle.client.http import Api

TYPED_API = "crawlctl.api"  # key in the context's `meta`; the value is the typed --api
PREFIX = "CRAWLER_REMOTE"  # for the variables with the API's settings


def typed_api() -> str | None:
    context = click.get_current_context(silent=True)
    return context.meta.get(TYPED_API) if context else None


def open_api(state: Path | None) -> "Api | None":
    """Return the client for the chosen API. None: the command uses the installation with the state folder."""
    typed = typed_api()
    if typed is not None and state is not None:
        raise click.UsageError("--api and --state exclude each other")
    is_possible = typed is not None or any(name.upper().startswith(PREFIX) for name in os.environ)
    if state is not None or not is_possible:
        return None
    from crawler_lifecycle import configuration
    from crawler_lifecycle.client.http import Api

    settings = configuration.load().remote
    if typed is not None:
        settings = settings.model_copy(update={"url": typed})
    return None if settings.url is None else Api.open(settings)


def refuse_api(state: Path | None) -> None:
    """Raise BadInput if an API is chosen: the command needs the installation itself."""
    if open_api(state) is not None:
        raise lacking()


def lacking() -> BadInput:
    """Return the error for a command without an equivalent in the API."""
    source, leave = ("--api", "call it without --api") if typed_api() else (f"{PREFIX}__URL", "name --state")
    _, words = click.get_current_context().command_path.split(" ", 1)
    return BadInput(
        source, f"the API has no equivalent for `{words}`: {leave}, on a machine with access to the database"
    )
