"""The command `up`, which runs the embedded stack in the foreground."""

import asyncio
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import crawlctl_command, print_json, print_line, print_to_stderr, standard_options
from crawler_lifecycle.errors import LifecycleError, NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.stack.child import Say
    from crawler_lifecycle.stack.stack import Stack


@click.command()
@click.option("--catalogue", type=click.Path(path_type=Path, dir_okay=False), help="Crawler catalogue file.")
@click.option("--free-ports", is_flag=True, help="Find free ports instead of the fixed ones.")
@click.option("--temporal-port", type=click.IntRange(1, 65535), help="Default: 7233.")
@click.option("--ui-port", type=click.IntRange(1, 65535), help="Temporal's Web UI; default: 8233.")
@click.option("--scheduler-port", type=click.IntRange(1, 65535), help="Default: 8310.")
@click.option("--api-port", type=click.IntRange(1, 65535), help="The HTTP API and its page; default: 3210.")
@click.option(
    "--flows",
    multiple=True,
    metavar="MODULE",
    help="Host the steps and crawl managers in a module or a .py file; repeatable.",
)
@click.option(
    "--flow-queue",
    multiple=True,
    metavar="NAME",
    help="Queue of the steps and crawl managers; repeatable; default: default.",
)
@click.option("--stop-jobs", is_flag=True, help="End the jobs with the stack; otherwise jobs continue.")
@standard_options
def up(catalogue: Path | None, free_ports: bool, temporal_port: int | None, ui_port: int | None,
       scheduler_port: int | None, api_port: int | None, flows: tuple[str, ...], flow_queue: tuple[str, ...],
       stop_jobs: bool, state: Path | None, as_json: bool) -> None:  # fmt: skip
    """Run the whole service on this machine until Ctrl-C.

    The state folder survives: after an end of any kind, `crawlctl up` continues every run. Ctrl-C ends the service
    in order and leaves the jobs running; a second Ctrl-C does not wait.

    \b
    Examples:
      crawlctl up
      crawlctl up --state ./state --free-ports --catalogue my-crawlers.toml
      crawlctl up --flows my_project/flows.py
    """
    from crawler_lifecycle.settings.configuration import misspelt
    from crawler_lifecycle.settings.installation import state_folder
    from crawler_lifecycle.stack.plan import Ports, StepModules, make_plan
    from crawler_lifecycle.stack.stack import Stack, owned

    for line in misspelt(os.environ):
        print_to_stderr(f"Warning: {line}")
    folder = state_folder(state)
    ports = Ports.free() if free_ports else Ports()
    requested_ports = {"temporal": temporal_port, "web_ui": ui_port, "scheduler": scheduler_port, "api": api_port}
    ports = replace(ports, **{name: port for name, port in requested_ports.items() if port})
    with owned(folder):
        ports.refuse_taken()
        say = print_to_stderr if as_json else print_line
        steps = StepModules(flows, flow_queue or ("default",))
        stack = Stack(make_plan(folder, ports, catalogue_file(catalogue), steps), say)
        asyncio.run(_serve(stack, say, stop_jobs=stop_jobs, as_json=as_json))


def catalogue_file(option: Path | None) -> Path:
    """Return the catalogue file: the option, else the environment's setting, else the example. The file is checked."""
    from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
    from crawler_lifecycle.stack.plan import DEFAULT

    setting = os.environ.get("CRAWLER_SCHEDULER__CATALOGUE")
    configured_path = option or (Path(setting) if setting else None)
    path = configured_path or DEFAULT
    if configured_path is None and not path.exists():
        raise NotReady("no crawler catalogue: name one with --catalogue FILE")
    Catalogue.load(path)  # reports a mistake in the file now: the scheduler service would not start
    return path


async def _serve(stack: "Stack", say: "Say", *, stop_jobs: bool, as_json: bool) -> None:
    """Run the stack until Ctrl-C or a signal, then report the jobs that continue. A second Ctrl-C kills the stack."""
    from crawler_lifecycle.stack.interruption import Interrupted, until_interrupted

    control = stack.control

    async def serve() -> None:
        async with stack.running():
            _announce(stack, stop_jobs=stop_jobs, as_json=as_json)
            await asyncio.Event().wait()

    try:
        await until_interrupted(serve(), stack.kill)
    except Interrupted:
        await asyncio.to_thread(_report_jobs, control, say, stop_jobs=stop_jobs)


def _announce(stack: "Stack", *, stop_jobs: bool, as_json: bool) -> None:
    """Print the addresses of the stack's parts and, for people, commands to try."""
    plan = stack.plan
    if as_json:
        return print_json(
            {
                "state": str(plan.state),
                "temporal": plan.temporal_address,
                "web_ui": plan.web_ui,
                "scheduler": plan.scheduler_url,
                "api": plan.api_url,
                "page": plan.page,
            }
        )
    option = "" if os.environ.get("CRAWLER_STATE") == str(plan.state) else f" --state {plan.state}"
    for line in (
        "",
        click.style("The stack is up.", bold=True),
        f"  page              {plan.page}",
        f"  Temporal          {plan.temporal_address}",
        f"  Web UI            {plan.web_ui}",
        f"  scheduler service {plan.scheduler_url}",
        f"  state             {plan.state} (logs in logs/)",
        f"  catalogue         {plan.environment['CRAWLER_SCHEDULER__CATALOGUE']}",
        *(f"  steps, managers   {target}" for target in plan.steps.targets),
        "",
        "Try from a second terminal:",
        *(f"  {crawlctl_command()} {command}{option}" for command in ("doctor", _first_start(stack), "list")),
        "",
        "Ctrl-C ends the stack and its jobs." if stop_jobs else "Ctrl-C ends the stack; jobs continue.",
    ):
        print_line(line)
    return None


def _first_start(stack: "Stack") -> str:
    """Return a command that starts something on the stack: a hosted file's flow, or a run of a crawler."""
    from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
    from crawler_lifecycle.flows.authors.modules import is_file

    for target in stack.plan.steps.targets:
        if is_file(target):
            return f"flow run {shlex.quote(target)}"
    catalogue = Catalogue.load(Path(stack.plan.environment["CRAWLER_SCHEDULER__CATALOGUE"]))
    return f"run {shlex.quote(catalogue.names()[0])}"


def _report_jobs(control: "Control", say: "Say", *, stop_jobs: bool) -> None:
    """End the open jobs if `stop_jobs` is set. Print the jobs that still run, and the runs that may have more jobs."""
    from crawler_lifecycle.stack.jobs import end_jobs, open_jobs

    try:
        jobs = end_jobs(control) if stop_jobs else open_jobs(control)
    except LifecycleError as error:
        return say(f"jobs may continue: {error.message}")
    if jobs.seen:
        say(f"{counted(len(jobs.seen), 'job')} left running; the next `crawlctl up` takes them over:")
        for job in jobs.seen:
            say(f"  {job.line}")
    for line in jobs.unseen:
        say(f"jobs may still run in {line}")
    if not jobs.seen and not jobs.unseen:
        say("The stack has ended; no job is left running.")
    return None
