"""Connects a command with the HTTP API: by `--api`, by the stack on the state folder, or by `CRAWLER_REMOTE__URL`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.errors import NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.settings.processes import RemoteSettings
    from crawler_lifecycle.transport.connection import HttpConnection

TYPED_API = "crawlctl.api"  # key in the context's `meta`; the value is the typed --api
# commands on the installation itself, or on their own stack
DIRECT = ("up", "demo", "doctor", "db", "token", "accept-namespace", "prune", "flow run")
WITHOUT_API = (
    "without an API work `up`, `demo`, `doctor`, `db`, `token`, `accept-namespace`, `prune`, `flow check`, `flow run` "
    "and `stop --direct`"
)


def typed_api() -> str | None:
    context = click.get_current_context(silent=True)
    return context.meta.get(TYPED_API) if context else None


def is_direct(words: str) -> bool:
    """Return whether the command, such as `flow run`, works without the API."""
    return any(words == name or words.startswith(f"{name} ") for name in DIRECT)


def open_connection(state: Path | None, *, seconds: float | None = None) -> "HttpConnection":
    """Return the connection to the chosen API. NotReady without an API's address or token.

    `seconds` limits a request; default: the setting.
    """
    from crawler_lifecycle.transport.connection import HttpConnection, address_of, token_of

    settings = _settings(state)
    connection = HttpConnection(
        address_of(settings), token_of(settings), seconds or settings.seconds, settings.authorities
    )
    connection.advice = f"`--api`, `--state` or CRAWLER_REMOTE__URL chooses an API; {WITHOUT_API}"
    return connection


def _settings(state: Path | None) -> "RemoteSettings":
    from crawler_lifecycle.settings import configuration, stack_file
    from crawler_lifecycle.settings.installation import state_folder

    typed = typed_api()
    if typed is not None and state is not None:
        raise click.UsageError("--api and --state exclude each other")
    remote = configuration.load().remote
    if typed is not None:
        return remote.model_copy(update={"url": typed})
    if state is None and remote.url is not None:
        return remote
    folder = state_folder(state)
    stack = stack_file.read(folder)
    if stack is None:
        raise NotReady(
            f"no HTTP API is known: set CRAWLER_REMOTE__URL and CRAWLER_REMOTE__TOKEN_FILE, or start a stack on "
            f"{folder} with `crawlctl up`; {WITHOUT_API}"
        )
    own = {"url": stack.environment["CRAWLER_API__URL"], "token_file": folder / stack_file.API_TOKEN_FILE}
    return remote.model_copy(update=own | {"authorities": None})
