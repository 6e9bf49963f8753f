"""The commands that start and preview crawl managers: start, check."""

import asyncio
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.cli.authors_code import refusals_of_a_class, warn_of_a_single_cycle
from crawler_lifecycle.cli.common import Duration, print_answer, standard_options
from crawler_lifecycle.cli.failures import USAGE, fail
from crawler_lifecycle.cli.flow_options import actor_option, arguments_argument, on_record, open_commands, print_effect
from crawler_lifecycle.cli.remote.choice import open_api
from crawler_lifecycle.domain.words import counted
from crawler_lifecycle.errors import BadInput, LifecycleError, NotReady

if TYPE_CHECKING:
    from crawler_lifecycle.contract.flows.answers import FlowAnswer
    from crawler_lifecycle.contract.flows.definition import FlowDefinition
    from crawler_lifecycle.managers import WorkFlowManager
    from crawler_lifecycle.managers.preview import Preview, PreviewedJob

MOST_LINES = 20  # repeats and refusals in a preview; further lines are counted
FLOW_ID = "Flow id of the manager (its family), or the whole id; default: a new flow id."


@click.command()
@click.argument("target")
@arguments_argument
@click.option("--id", "--flow-id", "flow_id", help=FLOW_ID)
@click.option("--name", help="Name of a manager whose module is not on this machine.")
@click.option("--queue", default="default", show_default=True, help="Queue of the hosts that may run the manager.")
@actor_option
@standard_options
def start(
    target: str,
    arguments: tuple[str, ...],
    flow_id: str | None,
    name: str | None,
    queue: str,
    actor: str | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Start the crawl manager TARGET: `module:Class`, `FILE.py:Class`, or a name in the catalogue. Print its flow's id.

    ARGUMENTS are the manager's command line, behind `--`. The manager's own parser checks the line before anything is
    written, if the module is on this machine. A second start under the same flow id joins the first one; with another
    class or other arguments, the start is refused. The manager needs a host: `python -m workers.flows MODULE`, or
    `crawlctl up --flows FILE`.

    \b
    Examples:
      crawlctl flow start my_project.managers:Shops --id november -- --max-running-jobs 8
      crawlctl flow start shops_manager.py:ShopsManager
      crawlctl flow start shops -- --spider-args '{"country": "de"}'
    """
    answer = asyncio.run(_start(target, arguments, flow_id, name, queue, actor, state))
    effect = "is started" if answer.created else "was started before; `crawlctl flow show` shows the manager"
    print_effect(answer, effect, as_json=as_json)


async def _start(
    target: str,
    arguments: Sequence[str],
    flow_id: str | None,
    name: str | None,
    queue: str,
    actor: str | None,
    state: Path | None,
) -> "FlowAnswer":
    from crawler_lifecycle.contract.flows.item_requests import StartManager
    from crawler_lifecycle.contract.flows.requests import PushFlow
    from crawler_lifecycle.contract.requests import refusals_as_bad_input

    commands, record = open_commands(state), on_record(actor)
    if ":" in target or target.endswith(".py"):
        definition = definition_for(target, arguments, flow_id, name, queue)
        return await commands.push(PushFlow(definition=definition, **record))
    with refusals_as_bad_input():
        request = StartManager(manager=target, flow_id=flow_id, arguments=tuple(arguments), **record)
    if open_api(state) is None:
        check_arguments(await commands.definition_of_manager(target, flow_id, arguments))
    return await commands.start_manager(request)


def check_arguments(definition: "FlowDefinition") -> None:
    """Let a catalogue manager's class check the arguments, if the class is here. The manager's host checks anyway."""
    from crawler_lifecycle.managers.defining import build

    work = definition.manager
    assert work is not None, "the flow for a catalogue's manager has a manager"
    try:
        manager = class_of(work.function)
    except BadInput:  # the module here is another module, or lacks its libraries
        return
    if manager is not None and isinstance(work.arguments, list):
        with refusals_of_a_class(manager):
            build(manager, [str(word) for word in work.arguments])


def definition_for(
    target: str, arguments: Sequence[str], flow_id: str | None, name: str | None, queue: str
) -> "FlowDefinition":
    """Return the flow for a class. Without the class on this machine, the host checks the arguments."""
    from crawler_lifecycle.cli.flow_files import definition_of_manager
    from crawler_lifecycle.managers.defining import family_in, flow_of

    manager = class_of(target)
    if manager is not None:
        if name is not None:
            raise BadInput("name", "the class is on this machine, and names itself")
        return definition_of_manager(manager, arguments, flow_id, queue)
    if name is None:
        module = target.partition(":")[0]
        raise BadInput("name", f"is needed, because the module {module} is not on this machine")
    return flow_of(target, name, family_in(arguments, flow_id, name), arguments, queue)


def class_of(target: str) -> "type[WorkFlowManager] | None":
    """Return the class for `FILE.py`, `FILE.py:Class` or `module:Class`; None if the module is not on this machine."""
    from crawler_lifecycle.cli.flow_files import manager_in, managers_of, module_in, targets_hint
    from crawler_lifecycle.managers import WorkFlowManager
    from crawler_lifecycle.services.flows.modules import load

    place, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    if place.endswith(".py"):
        file = Path(place)
        manager = manager_in(file, name or None, has_option=False)
        if manager is None:
            hint = targets_hint(file, managers_of(module_in(file)))
            raise BadInput("target", f"{place} has no crawl manager {name or 'at its top level'}{hint}")
        return manager
    if not _is_here(place):
        return None
    try:
        (module,) = load([place], Path.cwd()).modules.values()
    except NotReady as error:
        raise BadInput("target", error.message) from error
    chosen = getattr(module, name, None)
    if not isinstance(chosen, type) or not issubclass(chosen, WorkFlowManager) or chosen.__module__ != place:
        raise BadInput("target", f"{place} defines no crawl manager {name!r}")
    return chosen


def _is_here(module: str) -> bool:
    """Return whether the module's top-level package is on this machine, also in the current folder."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.util.find_spec(module.partition(".")[0]) is not None


@click.command()
@click.argument("target")
@arguments_argument
@click.option("--first", type=click.IntRange(0, 1000), default=10, show_default=True, help="Jobs to show.")
@click.option("--most", type=click.IntRange(1), default=100_000, show_default=True, help="Parameter sets to read.")
@click.option("--duration", type=Duration(), help="Typical duration of a crawl, for a forecast.")
@click.option("--catalogue", type=click.Path(path_type=Path, dir_okay=False), help="Catalogue file for the crawlers.")
@standard_options
def check(
    target: str,
    arguments: tuple[str, ...],
    first: int,
    most: int,
    duration: int | None,
    catalogue: Path | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Preview the crawl manager TARGET without a start: first jobs, repeats, refused jobs, hours with --duration.

    TARGET is `FILE.py`, `FILE.py:Class` or `module:Class`. The generator is read, and no job is written. Crawlers are
    looked up in the running installation's catalogue, or in --catalogue. The exit status is 2 for a refused job.

    \b
    Examples:
      crawlctl flow check shops_manager.py --duration 15m
      crawlctl flow check my_project.managers:Shops --first 3 -- --spider-args '{"country": "de"}'
    """
    from crawler_lifecycle.managers import PeriodicCrawlManager
    from crawler_lifecycle.managers.defining import build
    from crawler_lifecycle.managers.preview import preview

    manager = class_of(target)
    if manager is None:
        raise BadInput("target", f"the module of {target} is not on this machine")
    with refusals_of_a_class(manager):
        built = build(manager, arguments)
    result = preview(built, first=first, most=most)
    if result.problem is None:
        warn_of_a_single_cycle(built)
    missing = _missing_crawlers(result.crawlers, catalogue, state)
    has_no_end = issubclass(manager, PeriodicCrawlManager)  # the jobs have no number, so no sum of hours
    forecast = None if duration is None or has_no_end else round(result.hours(duration), 2)
    answer = {"preview": result, "missing_crawlers": missing, "hours": forecast}
    print_answer(answer, lambda _: _preview_lines(result, missing, forecast), as_json=as_json)
    if result.problem is not None:
        fail(result.problem, USAGE, as_json=as_json)
    if result.refused or missing:
        raise click.exceptions.Exit(USAGE)


def _missing_crawlers(crawlers: Sequence[str], catalogue: Path | None, state: Path | None) -> list[str] | None:
    """Return the crawlers that the catalogue does not have; None if no catalogue is known here."""
    from crawler_lifecycle.adapters.catalogue import Catalogue
    from crawler_lifecycle.control.context import Context
    from crawler_lifecycle.control.installation import is_known

    if catalogue is not None:
        known = Catalogue.load(catalogue).names()
    elif is_known(state):
        try:
            known = asyncio.run(Context.open(state).scheduler(lambda scheduler: scheduler.crawler_names()))
        except LifecycleError:
            return None
    else:
        return None
    return sorted(set(crawlers) - set(known))


def _preview_lines(result: "Preview", missing: Sequence[str] | None, hours: float | None) -> Iterator[str]:
    goes_on = " so far: the generator goes on, see --most" if result.problem is None else " before an error"
    more = "" if result.is_exhausted else goes_on
    yield (
        f"manager {result.name}: {counted(result.read, 'parameter set')} read, {counted(result.new, 'job')}, "
        f"{len(result.repeated)} repeated, {len(result.refused)} refused{more}"
    )
    yield from (f"  {job.number}  {_job_words(job)}" for job in result.jobs)
    if result.new > len(result.jobs):
        yield f"  ... and {counted(result.new - len(result.jobs), 'further job')}"
    yield from _cut(f"  {job.number}  repeated: equals {job.repeats}" for job in result.repeated)
    yield from _cut(f"  {job.number}  refused: {job.problem}" for job in result.refused)
    if missing is None:
        yield "crawlers are not checked: no catalogue is known here (--catalogue)"
    yield from (f"crawler {name!r} is not in the catalogue" for name in missing or ())
    if hours is not None:
        at_once = counted(min(result.most_at_once, max(result.new, 1)), "job")
        yield f"forecast: {hours:g} hour{'' if hours == 1 else 's'} with {at_once} at once"


def _job_words(job: "PreviewedJob") -> str:
    request = job.request
    assert request is not None, "a job that would start has a request"
    arguments = " ".join(f"{name}={value}" for name, value in request.arguments.items())
    return f"{request.crawler}  {arguments}".rstrip()


def _cut(lines: Iterator[str]) -> Iterator[str]:
    """Yield the first lines, and the number of all further lines."""
    all_lines = list(lines)
    yield from all_lines[:MOST_LINES]
    if len(all_lines) > MOST_LINES:
        yield f"  ... and {len(all_lines) - MOST_LINES} more"
