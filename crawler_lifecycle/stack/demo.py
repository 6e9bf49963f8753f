"""The command `demo`, which runs a real crawl through all four stages on a temporary stack."""

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle import extras
from crawler_lifecycle.console.common import (
    TYPED_STATE,
    api_option,
    crawlctl_command,
    json_option,
    plain,
    print_json,
    print_line,
    print_to_stderr,
)
from crawler_lifecycle.console.failures import INTERRUPTED, NOT_COMPLETED, OK
from crawler_lifecycle.errors import NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.model.records import RunDetails
    from crawler_lifecycle.stack.child import Say
    from crawler_lifecycle.stack.stack import Stack

CRAWLER = "bookshop"  # in the catalogue of the examples
TASKS = 4


@click.command()
@click.option("--results", type=click.Path(path_type=Path, file_okay=False), default=Path("crawl-results"),
              show_default=True, help="Folder for the results of the crawl.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the service and its page until Ctrl-C.")
@api_option
@json_option
def demo(results: Path, keep: bool, as_json: bool) -> None:
    """Run one real crawl on a temporary stack, and show its progress.

    Four tasks crawl the small bookshop among the examples.
    The service starts in a temporary folder on free ports and is removed afterwards. The archive of the crawl and the
    event that announced the archive are kept. The exit status is 0 only if the run is COMPLETED and its four tasks
    SUCCEEDED.
    """
    if click.get_current_context().meta.get(TYPED_STATE):
        raise click.UsageError("--state is not for the demo: its state is temporary")
    from crawler_lifecycle.stack.plan import DEFAULT, Ports, make_plan
    from crawler_lifecycle.stack.stack import Stack, owned

    extras.require("examples")
    _remove_settings()
    with temporary_folder("crawl-demo-") as folder:
        state = Path(folder).resolve() / "state"
        with owned(state):
            plan = make_plan(state, Ports.free(), DEFAULT)
            stack = Stack(plan, print_to_stderr if as_json else print_line, temporary=True)
            status = asyncio.run(_demo(stack, results, keep=keep, as_json=as_json))
    raise click.exceptions.Exit(status)


def temporary_folder(prefix: str) -> "tempfile.TemporaryDirectory[str]":
    """Return a new folder for a stack, which is removed after the stack's end."""
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise NotReady(f"the service needs a temporary folder: {error.strerror}; set TMPDIR") from error


def _remove_settings() -> None:
    """Remove all settings from the environment: the demo must not use another installation."""
    from crawler_lifecycle.settings import PREFIX
    from crawler_lifecycle.settings.installation import TEMPORAL

    for name in list(os.environ):
        if name.startswith((PREFIX, TEMPORAL)):
            del os.environ[name]


async def _demo(stack: "Stack", results: Path, *, keep: bool, as_json: bool) -> int:
    """Run the demo until its end or a signal, and return the exit status."""
    from crawler_lifecycle.stack.interruption import Interrupted, until_interrupted

    try:
        return await until_interrupted(_crawl(stack, results, keep=keep, as_json=as_json), stack.kill)
    except Interrupted as interrupted:
        click.echo(f"\n{interrupted.number.name}: the demo has ended and is removed.", err=True)
        return INTERRUPTED if interrupted.number.name == "SIGINT" else 128 + interrupted.number


async def _crawl(stack: "Stack", results: Path, *, keep: bool, as_json: bool) -> int:
    """Start the stack, run the crawl, copy and print the results, and return the exit status."""
    from crawler_lifecycle.model.requests import RunRequest
    from crawler_lifecycle.model.states import RunStatus, TaskStatus, Trigger
    from crawler_lifecycle.runs.cli.screen import follow

    say = print_to_stderr if as_json else print_line
    say(f"Starting Temporal, the scheduler service, dispatcher, watcher, API and worker in {stack.plan.state} ...")
    async with stack.running() as control:
        say("They are up. Crawling the example bookshop ...\n")
        request = RunRequest(crawler=CRAWLER, tasks=TASKS, trigger=Trigger.MANUAL)
        started = await control.runs.start(request)
        changes = control.runs.watch(started.run_id)
        details = [change async for change in changes][-1] if as_json else await follow(changes)
        results_folder = results.absolute() / details.run.run_uid
        details = _with_locations_in(results_folder, details, control)
        await asyncio.to_thread(_copy_results, results_folder, details, control)
        items = await asyncio.to_thread(_count_items, control, details)
        if as_json:
            print_json({"run": details, "items": items, "results": str(results_folder)})
        else:
            _print_end(details, items, results_folder)
        if keep:
            await _keep(stack, say)
    if not keep and not as_json:
        _print_next(results_folder / f"{details.run.run_uid}.zip")
    is_completed = details.run.status is RunStatus.COMPLETED
    all_succeeded = details.run.tasks.get(TaskStatus.SUCCEEDED, 0) == TASKS
    return OK if is_completed and all_succeeded else NOT_COMPLETED


def _with_locations_in(results_folder: Path, details: "RunDetails", control: "Control") -> "RunDetails":
    """Return the run with the locations that its exports will have in the results folder."""
    exports_folder = str(control.installation.settings.exports_folder)
    exports = [
        export.model_copy(
            update={"location": export.location and export.location.replace(exports_folder, str(results_folder))}
        )
        for export in details.exports
    ]
    return details.model_copy(update={"exports": exports})


def _copy_results(results_folder: Path, details: "RunDetails", control: "Control") -> None:
    """Copy the archive, the events and the record of the run, since the stack's folder is removed after the demo."""
    results_folder.mkdir(parents=True, exist_ok=True)
    exports_folder = control.installation.settings.exports_folder
    archive, events = f"{details.run.run_uid}.zip", "events.jsonl"
    if (exports_folder / archive).exists():
        shutil.copy2(exports_folder / archive, results_folder / archive)
    event_lines = (exports_folder / events).read_text()
    (results_folder / events).write_text(event_lines.replace(str(exports_folder), str(results_folder)))
    (results_folder / "run.json").write_text(details.model_dump_json(indent=2))


def _count_items(control: "Control", details: "RunDetails") -> int:
    """Return the number of collected items. Every task writes a file with a line for every item."""
    files = control.installation.settings.files_folder / details.run.run_uid
    return sum(len(path.read_text().splitlines()) for path in files.glob("items-*.jsonl"))


def _print_end(details: "RunDetails", items: int, results_folder: Path) -> None:
    from crawler_lifecycle.runs.cli.details_lines import details_lines

    run = details.run
    print_line("")
    for line in details_lines(plain(details), datetime.now(UTC)):
        print_line(line)
    for line in (
        "",
        click.style(f"{items} items collected.", bold=True),
        f"  record   {results_folder / 'run.json'}",
        f"  archive  {results_folder / (run.run_uid + '.zip')}",
        f"  events   {results_folder / 'events.jsonl'}",
    ):
        print_line(line)


async def _keep(stack: "Stack", say: "Say") -> None:
    """Print the stack's addresses, and return after Ctrl-C or a signal: the demo is then complete."""
    for line in (
        "",
        "The service runs until Ctrl-C:",
        f"  page    {stack.plan.page}",
        f"  Web UI  {stack.plan.web_ui}",
        f"  from a second terminal: {crawlctl_command()} list --state {stack.plan.state}",
    ):
        say(line)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _print_next(archive: Path) -> None:
    for line in (
        "",
        "Next:",
        f"  {_list_command()} {archive}",
        f"  {crawlctl_command()} up    start the service and its page until Ctrl-C; then, in a second terminal:",
        f"  {crawlctl_command()} run {CRAWLER}",
    ):
        print_line(line)


def _list_command() -> str:
    """Return an installed command for listing a zip."""
    return "unzip -l" if shutil.which("unzip") else f"{sys.executable} -m zipfile -l"
