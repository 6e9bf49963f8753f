"""The commands that show an author's flow before its start: `flow check` and `flow graph`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.clusters.cli import open_crawlers
from crawler_lifecycle.console.common import Duration, print_answer, print_json, standard_options
from crawler_lifecycle.console.failures import USAGE, fail
from crawler_lifecycle.errors import BadInput, TemporaryError
from crawler_lifecycle.flows.cli.options import arguments_argument, flow_argument, open_flows, workflow_option
from crawler_lifecycle.managers.cli.flow_files import refusals_of_a_class, warn_of_a_single_cycle
from crawler_lifecycle.managers.cli.targets import class_of

if TYPE_CHECKING:
    from crawler_lifecycle.flows.model.definition import FlowDefinition, MemberDefinition
    from crawler_lifecycle.managers.authors.preview import Preview, PreviewedJob

FORMATS = ("mermaid", "dot", "states-dot")
MOST_LINES = 20  # repeats and refusals in a preview; further lines are counted


@click.command()
@flow_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), default="mermaid", show_default=True,
              help="Mermaid or Graphviz; states-dot: as Chancy draws.")  # fmt: skip
@click.option("--no-states", is_flag=True, help="With Mermaid: without the colours of states.")
@workflow_option
@standard_options
def graph(flow: str, kind: str, no_states: bool, workflow_name: str | None, state: Path | None, as_json: bool) -> None:
    """Print the picture of FLOW: a flow's id, or an author's file before its push.

    \b
    Examples:
      crawlctl flow graph nightly-2026-11-22
      crawlctl flow graph bookshop_graph.py --format dot | dot -Tsvg -o graph.svg
    """
    from crawler_lifecycle.flows.commands.reading import picture
    from crawler_lifecycle.flows.rules import merging
    from crawler_lifecycle.managers.cli.flow_files import is_file, workflow_for_picture

    if is_file(flow):
        workflow = workflow_for_picture(Path(flow), workflow_name)
        definition = workflow.definition()
        merging.push(merging.new_ledger(definition), definition, datetime.now(UTC))  # refuses what a push refuses
        flow, text = workflow.id, picture(workflow, kind, states=False)
    else:
        text = open_flows(state).graph(flow, kind, states=not no_states)
    if as_json:
        print_json({"flow": flow, "format": kind, "graph": text})
    else:
        click.echo(text.rstrip("\n"))


@click.command()
@click.argument("target")
@arguments_argument
@workflow_option
@click.option("--first", type=click.IntRange(0, 1000), default=10, show_default=True, help="Jobs to show.")
@click.option("--most", type=click.IntRange(1), default=100_000, show_default=True, help="Parameter sets to read.")
@click.option("--duration", type=Duration(), help="Typical duration of a crawl, for a forecast.")
@click.option("--catalogue", type=click.Path(path_type=Path, dir_okay=False), help="Catalogue file for the crawlers.")
@standard_options
def check(
    target: str,
    arguments: tuple[str, ...],
    workflow_name: str | None,
    first: int,
    most: int,
    duration: int | None,
    catalogue: Path | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Preview the crawl manager or workflow TARGET without a start.

    TARGET is `FILE.py`, `FILE.py:Class` or `module:Class`, or `FILE.json`. Of a manager: first jobs, repeats, refused
    jobs, hours with --duration, and what its class takes from shub-workflow in vain; the generator is read, and no job
    is written. Of a workflow: jobs by kind, and crawlers. Crawlers are looked up in --catalogue, or in the
    installation's catalogue, also over the API. The exit status is 2 for a job that would be refused.

    \b
    Examples:
      crawlctl flow check bookshop_graph.py
      crawlctl flow check shops_manager.py --duration 15m
      crawlctl flow check my_project.managers:Shops --first 3 -- --spider-args '{"country": "de"}'
    """
    graph = _graph_in(target, workflow_name, arguments)
    if graph is None:
        manager = target if workflow_name is None else f"{target}:{workflow_name}"
        _check_manager(manager, arguments, first, most, duration, catalogue, state, as_json=as_json)
    else:
        _check_graph(graph, catalogue, state, as_json=as_json)


def refuse_missing_crawlers(definition: "FlowDefinition", names: Sequence[str] | None) -> None:
    """Raise BadInput if the catalogue lacks a crawler in the workflow. `names`: the catalogue's, or None."""
    if missing := _missing_crawlers(_crawlers(definition), names):
        lacking = ", ".join(map(repr, missing))
        raise BadInput("FILE", f"the catalogue has no crawler {lacking}: `crawlctl crawlers` lists the crawlers")


def names_in_catalogue(catalogue: Path | None, state: Path | None) -> Sequence[str] | None:
    """Return the crawlers' names in the file; without a file over the API, or None without an answer."""
    from crawler_lifecycle.clusters.adapters.catalogue import Catalogue

    if catalogue is not None:
        return Catalogue.load(catalogue).names()
    try:
        return open_crawlers(state).names()
    except TemporaryError:
        return None


def _graph_in(target: str, name: str | None, arguments: Sequence[str]) -> "FlowDefinition | None":
    """Return the checked workflow in the file; None for a crawl manager."""
    from crawler_lifecycle.flows.authors.building import check_definition
    from crawler_lifecycle.managers.cli.flow_files import definition_in, manager_in

    if not target.endswith((".py", ".json")):
        if name is not None:
            raise BadInput("--flow", f"names a flow in a file, and {target} names its class already")
        return None
    file = Path(target)
    if file.suffix == ".py" and manager_in(file, name) is not None:
        return None
    definition = definition_in(file, name, None, arguments)
    check_definition(definition)
    return definition


def _crawlers(definition: "FlowDefinition") -> list[str]:
    from crawler_lifecycle.flows.model.definition import CrawlWork

    return [member.work.request.crawler for member in definition.members if isinstance(member.work, CrawlWork)]


def _kind_of(member: "MemberDefinition") -> str:
    from crawler_lifecycle.flows.model.definition import StepWork

    return "manager" if isinstance(member.work, StepWork) and member.work.is_manager else member.work.kind


def _check_graph(definition: "FlowDefinition", catalogue: Path | None, state: Path | None, *, as_json: bool) -> None:
    crawls = _crawlers(definition)
    missing = _missing_crawlers(crawls, names_in_catalogue(catalogue, state))
    kinds = Counter(map(_kind_of, definition.members))
    answer = {"workflow": definition.name, "id": definition.id, "jobs": kinds, "missing_crawlers": missing}
    print_answer(answer, lambda _: _graph_lines(definition, kinds, Counter(crawls), missing), as_json=as_json)
    if missing:
        raise click.exceptions.Exit(USAGE)


def _graph_lines(
    definition: "FlowDefinition", kinds: Counter[str], crawls: Counter[str], missing: Sequence[str] | None
) -> Iterator[str]:
    sums = ", ".join(counted(number, kind) for kind, number in sorted(kinds.items()))
    yield f"workflow {definition.name or definition.id}: {counted(len(definition.members), 'job')} ({sums})"
    yield from _cut(f"  crawler {crawler}: {counted(number, 'crawl')}" for crawler, number in sorted(crawls.items()))
    yield from _crawler_lines(missing)


def _check_manager(
    target: str,
    arguments: Sequence[str],
    first: int,
    most: int,
    duration: int | None,
    catalogue: Path | None,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    from crawler_lifecycle.managers import PeriodicCrawlManager
    from crawler_lifecycle.managers.authors.defining import build
    from crawler_lifecycle.managers.authors.preview import preview

    manager = class_of(target)
    if manager is None:
        raise BadInput("target", f"the module of {target} is not on this machine")
    with refusals_of_a_class(manager):
        built = build(manager, arguments)
    result = preview(built, first=first, most=most)
    if result.problem is None:
        warn_of_a_single_cycle(built)
    missing = _missing_crawlers(result.crawlers, names_in_catalogue(catalogue, state))
    has_no_end = issubclass(manager, PeriodicCrawlManager)  # the jobs have no number, so no sum of hours
    forecast = None if duration is None or has_no_end else round(result.hours(duration), 2)
    answer = {"preview": result, "missing_crawlers": missing, "hours": forecast}
    print_answer(answer, lambda _: _preview_lines(result, missing, forecast), as_json=as_json)
    if result.problem is not None:
        fail(result.problem, USAGE, as_json=as_json)
    if result.refused or missing:
        raise click.exceptions.Exit(USAGE)


def _missing_crawlers(crawlers: Sequence[str], names: Sequence[str] | None) -> list[str] | None:
    """Return the crawlers that the catalogue does not have; None if no catalogue is known here."""
    if not crawlers:
        return []
    return None if names is None else sorted(set(crawlers) - set(names))


def _preview_lines(result: "Preview", missing: Sequence[str] | None, hours: float | None) -> Iterator[str]:
    goes_on = " so far: the generator continues, see --most" if result.problem is None else " before an error"
    more = "" if result.is_exhausted else goes_on
    yield (
        f"manager {result.name}: {counted(result.read, 'input')} read, {counted(result.new, 'job')}, "
        f"{counted(len(result.repeated), 'duplicate')} skipped, {len(result.refused)} refused{more}"
    )
    yield from (f"  {job.number}  {_job_words(job)}" for job in result.jobs)
    if result.new > len(result.jobs):
        yield f"  ... and {counted(result.new - len(result.jobs), 'further job')}"
    yield from _cut(f"  {job.number}  duplicate of {job.repeats}" for job in result.repeated)
    yield from _cut(f"  {job.number}  refused: {job.problem}" for job in result.refused)
    if result.differences:
        yield "not as in shub-workflow:"
        yield from (f"  {difference}" for difference in result.differences)
    yield from _crawler_lines(missing)
    if hours is not None:
        at_once = counted(min(result.most_at_once, max(result.new, 1)), "job")
        yield f"forecast: {hours:g} hour{'' if hours == 1 else 's'} with {at_once} at once"


def _crawler_lines(missing: Sequence[str] | None) -> Iterator[str]:
    if missing is None:
        yield "crawlers are not checked: no catalogue is known here (--catalogue)"
    yield from (f"crawler {name!r} is not in the catalogue" for name in missing or ())


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
