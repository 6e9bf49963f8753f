"""The command `flow run`, which takes an author's file from start to end: host, push, follow, exit by the outcome."""

import asyncio
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.assembly.direct import open_control, open_parts
from crawler_lifecycle.base.words import counted
from crawler_lifecycle.console.common import plain, print_json, print_line, print_to_stderr, standard_options
from crawler_lifecycle.console.failures import INTERRUPTED, NOT_COMPLETED, OK
from crawler_lifecycle.errors import BadInput, NotFound, TemporaryError
from crawler_lifecycle.flows.cli.options import arguments_argument, file_argument, on_record, workflow_option
from crawler_lifecycle.stack.demo import temporary_folder
from crawler_lifecycle.stack.up import catalogue_file

STDOUT, STDERR = 1, 2  # file descriptors

if TYPE_CHECKING:
    from crawler_lifecycle.assembly.control import Control
    from crawler_lifecycle.flows.model.definition import FlowDefinition, StepWork
    from crawler_lifecycle.flows.model.records import FlowAnswer
    from crawler_lifecycle.stack.plan import StepModules
    from crawler_lifecycle.stack.stack import Stack


@click.command()
@file_argument
@arguments_argument
@workflow_option
@click.option("--id", "family", help="Id of the flow, in place of the id in FILE; of a manager, its flow id (family).")
@click.option("--graph", is_flag=True, help="Print the picture with all states at the end, for Mermaid.")
@click.option("--host", "modules", multiple=True, metavar="MODULE", help="Further module with steps; repeatable.")
@click.option("--catalogue", type=click.Path(path_type=Path, dir_okay=False), help="Crawler catalogue file.")
@standard_options
def run(
    file: Path,
    arguments: tuple[str, ...],
    workflow_name: str | None,
    family: str | None,
    graph: bool,
    modules: tuple[str, ...],
    catalogue: Path | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Run the workflow or crawl manager in FILE to its end: host, start, follow, and exit by the outcome.

    ARGUMENTS are the command line of a manager, after `--`. A manager's close reason decides: 0 for `finished`.

    The running stack is used, or the installation in the environment. Without either, the whole service starts in a
    temporary folder, and is removed afterwards with all archives; --catalogue is for this case. With --json, print the
    end as JSON. The lines that steps print are shown, with --json on stderr.

    \b
    Examples:
      crawlctl flow run bookshop_graph.py
      crawlctl flow run bookshop_graph.py --flow nightly --graph
      crawlctl flow run shops_manager.py -- --max-running-jobs 2
    """
    from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
    from crawler_lifecycle.flows.authors.building import check_definition
    from crawler_lifecycle.managers.cli.flow_checking import refuse_missing_crawlers
    from crawler_lifecycle.managers.cli.flow_files import definition_in
    from crawler_lifecycle.settings.installation import is_known

    definition = definition_in(file, workflow_name, family, arguments)
    check_definition(definition)
    _refuse_catalogue_managers(definition)
    names = _names_of(state) if is_known(state) else Catalogue.load(catalogue_file(catalogue)).names()
    refuse_missing_crawlers(definition, names)
    own = [] if file.suffix == ".json" else [str(file.absolute())]
    steps = replace(steps_of(definition, [*own, *modules]), output=STDERR if as_json else STDOUT)
    ending = FlowOutput(file, graph=graph, as_json=as_json)
    raise click.exceptions.Exit(asyncio.run(run_to_end(steps, definition, ending, state, catalogue)))


def _refuse_catalogue_managers(definition: "FlowDefinition") -> None:
    """Refuse crawl managers by their names in the catalogue: the command hosts the functions and classes in FILE."""
    from crawler_lifecycle.flows.model.definition import ManagerWork

    named = next((member for member in definition.members if isinstance(member.work, ManagerWork)), None)
    if named is not None:
        raise BadInput(
            "FILE",
            f"{named.path!r} is a crawl manager by its name in the catalogue, whose class this command does not host: "
            "use `crawlctl flow push FILE` and a host with the class, or name the class in manager(...)",
        )


def _names_of(state: Path | None) -> list[str] | None:
    """Return the crawlers' names in the installation's catalogue; None without an answer."""
    try:
        return open_parts(state).deployer.crawler_names()
    except TemporaryError:
        return None


async def run_to_end(
    steps: "StepModules",
    definition: "FlowDefinition",
    ending: "FlowOutput",
    state: Path | None = None,
    catalogue: Path | None = None,
) -> int:
    """Host the steps, start the flow, follow the flow to its end, and return the exit status.

    The running stack is used, or the installation in the environment, or else a stack in a temporary folder.
    """
    from crawler_lifecycle.settings.installation import is_known

    if is_known(state):
        return await _beside_a_stack(steps, definition, state, ending)
    return await _in_a_temporary_stack(steps, definition, catalogue, ending)


def steps_of(definition: "FlowDefinition", targets: Sequence[str]) -> "StepModules":
    """Return the modules and queues for the host: the targets, and the modules of all functions in the definition."""
    from crawler_lifecycle.flows.authors.modules import name_of
    from crawler_lifecycle.stack.plan import StepModules

    works = _step_works(definition)
    others = [name for name in modules_of(definition) if name not in map(name_of, targets)]
    queues = dict.fromkeys(["default", *(work.queue for work in works)])
    return StepModules((*targets, *others), tuple(queues))


def modules_of(definition: "FlowDefinition") -> list[str]:
    """Return the modules of all functions in the definition."""
    return list(dict.fromkeys(work.function.partition(":")[0] for work in _step_works(definition)))


def _step_works(definition: "FlowDefinition") -> "list[StepWork]":
    from crawler_lifecycle.flows.model.definition import StepWork

    works = [member.work for member in definition.members if isinstance(member.work, StepWork)]
    return works + [group.template for group in definition.groups if group.template is not None]


@dataclass(frozen=True)
class FlowOutput:
    """The output at the end, and the file for a hint."""

    file: Path
    graph: bool
    as_json: bool
    is_alone: bool = False  # whether the stack ends with the command, so that a person cannot resume a paused manager

    def say(self, line: str) -> None:
        (print_to_stderr if self.as_json else print_line)(line)


async def _beside_a_stack(
    steps: "StepModules", definition: "FlowDefinition", state: Path | None, ending: FlowOutput
) -> int:
    """Run the flow on the present installation, with a host of its steps for the time of the flow."""
    from crawler_lifecycle.settings.installation import environment_for_child
    from crawler_lifecycle.stack.interruption import Interrupted, until_interrupted
    from crawler_lifecycle.stack.stack import hosted

    control = open_control(state)
    own_host = await control.context.database(lambda _: own_host_of(control, definition))
    hosting = replace(steps, own_host=own_host)

    async def work() -> int:
        if not hosting.targets:
            return await _run(control, definition, ending)
        if not hosting.own_host:
            ending.say(f"flow {definition.id} was pushed for all hosts: this host also runs the other flows' steps")
        async with hosted(hosting, control, environment_for_child(state), ending.say):
            return await _run(control, definition, ending, hosting.own_host)

    try:
        return await until_interrupted(work(), lambda: None)
    except Interrupted as interrupted:
        flow = shlex.quote(definition.id)
        click.echo(f"\nflow {definition.id} continues: crawlctl flow watch {flow}", err=True)
        if hosting.targets:
            options = ["--flow", hosting.own_host] if hosting.own_host else []
            click.echo(f"its steps wait for a host: {_command([*hosting.targets, *options])}", err=True)
        return _status_of(interrupted.number)


def own_host_of(control: "Control", definition: "FlowDefinition") -> str:
    """Return the name of the flow's hosts: a new flow has a host of its own. A stored flow keeps its hosts."""
    with suppress(NotFound):
        return control.flows.row(definition.id)[1].own_host
    return definition.id


def _command(arguments: Sequence[str]) -> str:
    return f"crawlctl host {shlex.join(arguments)}"


async def _in_a_temporary_stack(
    steps: "StepModules", definition: "FlowDefinition", catalogue: Path | None, ending: FlowOutput
) -> int:
    """Run the flow on a stack with a host of its steps, in a temporary folder."""
    from crawler_lifecycle.stack.plan import Ports, make_plan
    from crawler_lifecycle.stack.stack import Stack, owned

    with temporary_folder("crawl-flow-") as folder:
        state = Path(folder).resolve() / "state"
        with owned(state):
            plan = make_plan(state, Ports.free(), catalogue_file(catalogue), steps)
            return await _alone(Stack(plan, ending.say, temporary=True), definition, ending)


async def _alone(stack: "Stack", definition: "FlowDefinition", ending: FlowOutput) -> int:
    from crawler_lifecycle.stack.interruption import Interrupted, until_interrupted

    async def work() -> int:
        ending.say(f"Starting the service in {stack.plan.state}, removed at the end with all archives of runs ...")
        async with stack.running() as control:
            ending.say(f"The service is up: {stack.plan.page}")
            return await _run(control, definition, replace(ending, is_alone=True))

    try:
        return await until_interrupted(work(), stack.kill)
    except Interrupted as interrupted:
        click.echo(f"\n{interrupted.number.name}: the service has ended and is removed.", err=True)
        return _status_of(interrupted.number)


async def _run(control: "Control", definition: "FlowDefinition", ending: FlowOutput, own_host: str = "") -> int:
    """Push the flow, follow the flow to its end, print the end, and return the exit status."""
    from crawler_lifecycle.flows.cli.watching import FlowReport, end_lines, follow_quietly, show_changes, until_paused
    from crawler_lifecycle.flows.commands.following import follow
    from crawler_lifecycle.flows.model.requests import PushFlow

    answer = await control.flows.push(PushFlow(definition=definition, own_host=own_host, **on_record(None)))
    ending.say(_announcement(answer, definition))
    changes = follow(control.context, definition.id)
    if ending.is_alone:
        changes = until_paused(changes)
    status, _ = await (follow_quietly(changes) if ending.as_json else show_changes(changes))
    end = await control.context.database(lambda _: FlowReport.read(control.flows, status, graph=ending.graph))
    if ending.as_json:
        print_json(end)
    else:
        for line in end_lines(plain(end)):
            print_line(line)
    return OK if end.is_success else NOT_COMPLETED


def _announcement(answer: "FlowAnswer", definition: "FlowDefinition") -> str:
    manager = definition.manager
    if manager is None:
        return f"flow {answer.flow_id}: {counted(answer.count, 'job')} {'pushed' if answer.created else 'changed'}"
    return f"flow {answer.flow_id}: manager {manager.title} {'is started' if answer.created else 'was started before'}"


def _status_of(number: signal.Signals) -> int:
    return INTERRUPTED if number is signal.SIGINT else 128 + number
