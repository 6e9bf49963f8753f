"""The commands for reading runs: list, show, logs, and fetch, which downloads and checks an archive."""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from crawler_lifecycle.clusters.cli import open_crawlers
from crawler_lifecycle.console.common import (
    Moment,
    open_connection,
    plain,
    print_answer,
    print_json,
    standard_options,
    terminal_width,
    until_reader_leaves,
)
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, TemporaryError
from crawler_lifecycle.runs.cli.requests import open_runs, run_argument

if TYPE_CHECKING:
    from crawler_lifecycle.delivery.client import Download

LONGEST_CRAWLER = 100  # characters from the crawler's name in the file's name
# runs' statuses, without the slow import of the contract
STATUSES = ("INITIALIZING", "PROCESSING", "STOPPING", "COMPLETED", "FAILED", "STOPPED")
BYTES_OF_TAILS = 1 << 20  # a log's end, where `--tail` looks for the last lines
LEAST_PAUSE_SECONDS = 0.3  # pause between two reads of a followed log; after many bytes, the pause is longer


@click.command("list")
@click.option(
    "--status",
    "listed",
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Only runs with this status. STOPPED: ended by a stop; FAILED: all other failures.",
)
@click.option("--crawler", help="Only runs of this crawler.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most runs to list.")
@click.option(
    "--before", type=click.IntRange(min=1), metavar="RUN", help="Only runs older than this RunID: the next page."
)
@click.option("--flows", flag_value="true", help="Runs of flows, too.")
@click.option("--flow", help="Only runs of the flow with this id.")
@click.option("--tag", help="Only runs with this tag, those of flows as well.")
@click.option("--outcome", help="Only runs whose end has this outcome, e.g. banned.")
@click.option("--label", help="Only runs with this label, those of flows as well.")
@click.option("--since", type=Moment(), help="Only runs created from this time on, e.g. 2026-11-01T00:00Z.")
@standard_options
def list_runs(limit: int, state: Path | None, as_json: bool, **filters: Any) -> None:
    """List runs, newest first. Runs of flows are left out: `crawlctl flow list` has the flows.

    Without --since, a list by an outcome, a tag, a label, or the status COMPLETED, FAILED or STOPPED goes back 30 days.

    OUTCOME is one word for the end, for programs that react to ends. REASON says what decided the end. TOOK counts from
    the creation or the last reopening. A narrow terminal shows fewer columns, a pipe shows all columns.

    \b
    Examples:
      crawlctl list
      crawlctl list --status failed --limit 100
      crawlctl list --outcome banned --label site:example.com
      crawlctl list --flow nightly-2026-11-22
      crawlctl list --json | jq '.[].run_id'
    """
    from crawler_lifecycle.runs.cli.list_lines import list_lines

    runs = list(islice(open_runs(state).all(page_size=limit, **filters), limit))
    print_answer(runs, lambda runs: list_lines(runs, datetime.now(UTC), terminal_width()), as_json=as_json)
    if not runs and not as_json:
        hint = _near_crawler(filters["crawler"], state) if filters["crawler"] else ""
        has_filter = any(value for name, value in filters.items() if name != "flows")
        has_window = (
            any(filters[name] for name in ("listed", "tag", "outcome", "label"))
            and not filters["since"]
            and not filters["flow"]
        )
        ever = ". --since looks further back than 30 days." if has_window else "."
        click.echo(f"No such runs{hint or ever}" if has_filter else "No runs.")


def _near_crawler(crawler: str, state: Path | None) -> str:
    """Return a hint such as `; did you mean 'bookshop'?`: empty if the crawler is known or no name is near."""
    from crawler_lifecycle.base.names import did_you_mean

    try:
        names = open_crawlers(state).names()
    except LifecycleError:  # only the hint is lost
        return ""
    return "" if crawler in names else did_you_mean(crawler, sorted(names))


@click.command()
@run_argument
@standard_options
def show(run: str, state: Path | None, as_json: bool) -> None:
    """Show all that is recorded about RUN, a RunID or a run_uid.

    \b
    Examples:
      crawlctl show 7
      crawlctl show 7 --json | jq '.tasks[] | select(.status=="FAILED")'
    """
    from crawler_lifecycle.runs.cli.details_lines import details_lines

    details = open_runs(state).show(run)
    print_answer(details, lambda details: details_lines(details, datetime.now(UTC)), as_json=as_json)


@click.command()
@run_argument
@click.option(
    "--task", type=click.IntRange(min=0), help="Only this task; default: all tasks, with the task at every line."
)
@click.option("-f", "--follow", is_flag=True, help="Print until the tasks have ended.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N",
              help="Begin with the last N lines of each task, of its last megabyte at most.")  # fmt: skip
@standard_options
def logs(run: str, task: int | None, follow: bool, tail: int | None, state: Path | None, as_json: bool) -> None:
    """Print the output of RUN's tasks.

    \b
    Examples:
      crawlctl logs 7
      crawlctl logs 7 --task 2 -f
      crawlctl logs 7 --tail 20
    """
    from crawler_lifecycle.base.pacing import log_pause

    runs = open_runs(state)
    details = runs.show(run)
    run_id, tasks = details.run.run_id, [row.task for row in details.tasks]
    if task is not None:
        if task not in tasks:
            raise NotFound(f"run {run_id} has no task {task}: its tasks are 0 to {len(tasks) - 1}")
        tasks = [task]
    # the next byte to read, at first perhaps counted from the end; a task is removed at the end of its log
    offsets = dict.fromkeys(tasks, 0 if tail is None else -BYTES_OF_TAILS)
    unprinted = dict.fromkeys(tasks, "")
    begun: set[int] = set() if tail else set(tasks)  # tasks with a log that is printed as the log grows
    has_output = False
    while offsets:
        bytes_read = 0
        for number, offset in list(offsets.items()):
            chunk = runs.log(run_id, number, offset)
            offsets[number] = chunk.offset
            bytes_read += len(chunk.text.encode())
            has_output = has_output or bool(chunk.text)
            no_more_expected = chunk.ended or not follow or details.run.status.is_over
            is_last = no_more_expected and not chunk.text
            if is_last:
                del offsets[number]
            unprinted[number] += chunk.text
            if number not in begun and chunk.text:
                continue  # the present end of the log is not reached yet
            lines, unprinted[number] = _whole_lines(unprinted[number], is_last=is_last)
            _print_log(number, lines if number in begun else lines[-(tail or 0) :], prefixed=len(tasks) > 1,
                       as_json=as_json)  # fmt: skip
            begun.add(number)
        if offsets and follow and begun.issuperset(offsets):
            # a pause limits the bytes a second; no event tells of new lines
            time.sleep(log_pause(bytes_read, LEAST_PAUSE_SECONDS))
            details = runs.show(run_id)
    if not has_output:
        click.echo(f"There is no output, or no log can be read: crawlctl show {run_id}", err=True)


def _whole_lines(text: str, *, is_last: bool) -> tuple[list[str], str]:
    """Return the whole lines, and the last line's beginning if the line is incomplete."""
    lines = text.splitlines(keepends=True)
    rest = "" if is_last or not lines or lines[-1].endswith("\n") else lines.pop()
    return [line.rstrip("\r\n") for line in lines], rest


def _print_log(task: int, lines: Iterable[str], *, prefixed: bool, as_json: bool) -> None:
    """Print lines from a task's log; `prefixed`: with the task's number before every line."""
    with until_reader_leaves():
        for line in lines:
            if as_json:
                print_json({"task": task, "line": line})
            else:
                shown = plain(line)
                click.echo(f"{click.style(str(task), fg='cyan')} | {shown}" if prefixed else shown)


@click.command()
@run_argument
@click.option("--end", type=click.IntRange(min=1), help="Number of the end, for a reopened run; default: the last end.")
@click.option("--output", type=click.Path(path_type=Path), default=Path(),
              help="File, or an existing folder; default: the current folder.")  # fmt: skip
@standard_options
def fetch(run: str, end: int | None, output: Path, state: Path | None, as_json: bool) -> None:
    """Fetch the archive of RUN: a checked zip file with its items.

    The archive comes from the folder or bucket with RUN's exports. Only a whole archive with the recorded SHA-256
    becomes the file, and an existing file is never overwritten. In a folder the file gets its name from crawler and
    run, such as bookshop-run-7.zip, or bookshop-run-7-2.zip for the second end.

    \b
    Examples:
      crawlctl fetch 7
      crawlctl fetch 7 --end 1 --output before.zip
    """
    from crawler_lifecycle.delivery.client import ApiArchives
    from crawler_lifecycle.runs.client import ApiRuns

    connection = open_connection(state)
    record = ApiRuns(connection).overview(run).run
    number = record.end_number if end is None else end
    with ApiArchives(connection).open(record.run_id, end) as archive:
        name = _file_name(record.crawler, record.run_id, number)
        target = (output / name if output.is_dir() else output).absolute()
        sha256 = _write(archive, target)
    size = archive.size
    if as_json:
        print_json({"run_id": record.run_id, "end": number, "file": str(target), "size": size, "sha256": sha256})
    else:
        checked = "equal to the record" if archive.sha256 else "no SHA-256 is recorded"
        click.echo(f"the archive of run {record.run_id}, end {number}, was written to {target}")
        click.echo(f"  {size} bytes, SHA-256 {sha256} ({checked})")


def _file_name(crawler: str, run_id: int, end: int) -> str:
    """Return the file's name: only letters, digits and ._- are taken from the crawler's name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", crawler).strip("-.")[:LONGEST_CRAWLER] or "crawl"
    return f"{name}-run-{run_id}{f'-{end}' if end > 1 else ''}.zip"


def _write(archive: "Download", target: Path) -> str:
    """Write the archive to the target and return its SHA-256. LifecycleError if the record has another SHA-256."""
    name, digest = target.name, hashlib.sha256()
    bar = click.progressbar(length=archive.size, label=name, file=sys.stderr, hidden=not sys.stderr.isatty())
    with _draft_for(target) as draft, draft.open("wb") as file, bar:
        for chunk in archive.chunks:
            digest.update(chunk)
            file.write(chunk)
            bar.update(len(chunk))
        if archive.sha256 is not None and digest.hexdigest() != archive.sha256:
            raise LifecycleError(
                f"{name} is damaged: its SHA-256 is {digest.hexdigest()}, the recorded one is {archive.sha256}"
            )
    return digest.hexdigest()


@contextmanager
def _draft_for(target: Path) -> Iterator[Path]:
    """Yield an empty hidden file beside the target, which gets the target's name after a success.

    A kill leaves no target, only the hidden file. Conflict: the target exists.
    """
    is_taken = Conflict(f"{target} exists already: remove it, or choose another file with --output")
    if os.path.lexists(target):
        raise is_taken
    draft = target.with_name(f".fetch-{uuid4().hex}.part")
    try:
        draft.touch(exist_ok=False)
    except OSError as error:
        raise BadInput("output", f"{target} cannot be written: {error.strerror}") from error
    try:
        yield draft
        _give_name(draft, target)
    except FileExistsError as error:
        raise is_taken from error
    except OSError as error:
        raise TemporaryError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def _give_name(draft: Path, target: Path) -> None:
    """Give the target's name in one step, which never replaces a file. FileExistsError: the target exists."""
    try:
        target.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links: only a kill between these two lines leaves an empty file
        target.open("xb").close()
        draft.replace(target)
