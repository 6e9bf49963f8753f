"""Completion in shells: the script for a shell, and arguments with names from the API."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from crawler_lifecycle.cli.api_choice import open_api
from crawler_lifecycle.cli.common import TYPED_STATE
from crawler_lifecycle.errors import LifecycleError

if TYPE_CHECKING:
    from crawler_lifecycle.client.http import Api

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


def _crawlers(api: "Api") -> Iterator[CompletionItem]:
    return (CompletionItem(name) for name in api.crawlers())


def _runs(api: "Api") -> Iterator[CompletionItem]:
    newest = api.runs.all(page_size=MOST_NAMES, flows="true")
    return (CompletionItem(str(run.run_id), help=f"{run.crawler} {run.status}") for run in newest)


def _flows(api: "Api") -> Iterator[CompletionItem]:
    return (CompletionItem(flow.id, help=flow.state) for flow in api.flows.all(page_size=MOST_NAMES))


def _schedules(api: "Api") -> Iterator[CompletionItem]:
    return (CompletionItem(schedule.schedule_id) for schedule in api.schedules.list())


def _completed_by(
    names: Callable[["Api"], Iterator[CompletionItem]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return click's callback. Without an answer in SECONDS there are no names."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            with ctx.scope(cleanup=False), open_api(ctx.meta.get(TYPED_STATE), seconds=SECONDS) as api:
                return [item for item in islice(names(api), MOST_NAMES) if item.value.startswith(incomplete)]
        except LifecycleError:
            return []

    return complete


run_argument = click.argument("run", shell_complete=_completed_by(_runs))
crawler_argument = click.argument("crawler", shell_complete=_completed_by(_crawlers))
flow_argument = click.argument("flow", shell_complete=_completed_by(_flows))
schedule_argument = click.argument("schedule_id", metavar="SCHEDULE", shell_complete=_completed_by(_schedules))
