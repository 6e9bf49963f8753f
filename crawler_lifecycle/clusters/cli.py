"""The command `crawlers`, which shows or checks a catalogue, and the argument CRAWLER with its completion."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import (
    open_connection,
    plain,
    print_answer,
    print_json,
    print_to_stderr,
    standard_options,
)
from crawler_lifecycle.console.completion import completed_by
from crawler_lifecycle.console.failures import USAGE
from crawler_lifecycle.console.words import duration, table
from crawler_lifecycle.model.deployment import Crawler

if TYPE_CHECKING:
    from crawler_lifecycle.clusters.client import ApiCrawlers
    from crawler_lifecycle.transport.connection import HttpConnection

COLUMNS = ("CRAWLER", "PROCESSES", "AT ONCE", "START LIMIT", "MAX DURATION", "GRACE")


def crawler_lines(crawlers: Sequence[Crawler]) -> Iterator[str]:
    return table([COLUMNS, *(_row(crawler) for crawler in crawlers)])


def _row(crawler: Crawler) -> tuple[str, ...]:
    limits = (crawler.start_limit_seconds, crawler.max_duration_seconds, crawler.grace_seconds)
    durations = ("-" if limit is None else duration(timedelta(seconds=limit)) for limit in limits)
    return crawler.name, str(crawler.processes), str(crawler.max_parallel or "-"), *durations


def open_crawlers(state: Path | None) -> "ApiCrawlers":
    from crawler_lifecycle.clusters.client import ApiCrawlers

    return ApiCrawlers(open_connection(state))


def _crawlers(connection: "HttpConnection") -> Iterator[CompletionItem]:
    from crawler_lifecycle.clusters.client import ApiCrawlers

    return (CompletionItem(name) for name in ApiCrawlers(connection).names())


crawler_argument = click.argument("crawler", shell_complete=completed_by(_crawlers))


@click.command()
@click.option("--check", "file", type=click.Path(path_type=Path), help="Check this catalogue file instead.")
@standard_options
def crawlers(file: Path | None, state: Path | None, as_json: bool) -> None:
    """List the crawlers in the scheduler service's catalogue.

    --check works without an installation: every mistake in the file is a line, and the exit status after a mistake
    is 2.

    \b
    Examples:
      crawlctl crawlers
      crawlctl crawlers --check my-crawlers.toml
      crawlctl crawlers --json | jq '.[].name'
    """
    if file is not None:
        _check_catalogue(file, as_json=as_json)
        return
    entries = open_crawlers(state).entries()
    if entries.problem is not None:
        print_to_stderr(f"Warning: {entries.problem}")
    print_answer(entries.crawlers, crawler_lines, as_json=as_json)


def _check_catalogue(file: Path, *, as_json: bool) -> None:
    """Print the problems of the catalogue file, or the names of its crawlers. Exit with USAGE after a problem."""
    from crawler_lifecycle.clusters.adapters.catalogue import Catalogue, problems_of

    problems = problems_of(file)
    catalogue = None if problems else Catalogue.load(file)
    names = [] if catalogue is None else catalogue.names()
    managers = [] if catalogue is None else catalogue.manager_names()
    if as_json:
        print_json({"file": str(file), "crawlers": names, "managers": managers, "problems": problems})
    else:
        for line in problems:
            click.echo(plain(line))
    if problems:
        raise click.exceptions.Exit(USAGE)
    if not as_json:
        of_managers = f"; crawl managers: {', '.join(managers)}" if managers else ""
        click.echo(f"{file} is valid: {counted(len(names), 'crawler')} ({', '.join(names)}){of_managers}")
