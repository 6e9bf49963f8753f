"""Parts for all commands with runs: the client, and the argument RUN with its completion."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from crawler_lifecycle.console.api_choice import open_connection
from crawler_lifecycle.console.completion import MOST_NAMES, completed_by

if TYPE_CHECKING:
    from crawler_lifecycle.runs.client.runs import ApiRuns
    from crawler_lifecycle.transport.connection import HttpConnection


def open_runs(state: Path | None) -> "ApiRuns":
    from crawler_lifecycle.runs.client.runs import ApiRuns

    return ApiRuns(open_connection(state))


def _runs(connection: "HttpConnection") -> Iterator[CompletionItem]:
    from crawler_lifecycle.runs.client.runs import ApiRuns

    newest = ApiRuns(connection).all(page_size=MOST_NAMES, flows="true")
    return (CompletionItem(str(run.run_id), help=f"{run.crawler} {run.status}") for run in newest)


run_argument = click.argument("run", shell_complete=completed_by(_runs))
