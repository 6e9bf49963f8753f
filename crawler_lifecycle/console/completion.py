"""Completion in shells: the script for a shell, and the completion for arguments with names from the API."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from crawler_lifecycle.console.common import TYPED_STATE, open_connection
from crawler_lifecycle.errors import LifecycleError

if TYPE_CHECKING:
    from crawler_lifecycle.transport.connection import HttpConnection

MOST_NAMES = 100
SECONDS = 2.0  # limit for the answer: the shell waits
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and names of crawlers, runs, flows and schedules.

    \b
    Examples:
      eval "$(crawlctl completion bash)"         in ~/.bashrc
      eval "$(crawlctl completion zsh)"          in ~/.zshrc
      crawlctl completion fish | source          in ~/.config/fish/config.fish
    """
    root, kind = click.get_current_context().find_root().command, get_completion_class(shell)
    assert kind is not None, f"click knows {shell}"
    click.echo(kind(root, {}, "crawlctl", "_CRAWLCTL_COMPLETE").source())


def completed_by(
    names: Callable[["HttpConnection"], Iterator[CompletionItem]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return click's callback. Without an answer in SECONDS there are no names."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            state = ctx.meta.get(TYPED_STATE)
            # the connection reads the command's context, which the shell's callback does not enter
            with ctx.scope(cleanup=False), closing(open_connection(state, seconds=SECONDS)) as connection:
                return [item for item in islice(names(connection), MOST_NAMES) if item.value.startswith(incomplete)]
        except LifecycleError:
            return []

    return complete
