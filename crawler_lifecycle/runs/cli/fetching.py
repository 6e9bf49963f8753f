"""The command `fetch`, which downloads and checks a run's archive."""

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from crawler_lifecycle.console.api_choice import open_connection
from crawler_lifecycle.console.common import print_json, standard_options
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, TemporaryError
from crawler_lifecycle.runs.cli.opening import run_argument

if TYPE_CHECKING:
    from crawler_lifecycle.delivery.client import Download

LONGEST_CRAWLER = 100  # characters from the crawler's name in the file's name


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
    from crawler_lifecycle.runs.client.runs import ApiRuns

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
