"""Check whether a workflow can be pushed, kept and hosted, without running the workflow."""

from pathlib import Path

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.authors.workflow import Workflow
from crawler_lifecycle.flows.model.definition import CrawlWork, FlowDefinition, StepWork
from crawler_lifecycle.testing.calls import loaded


def assert_valid(workflow: Workflow, *, catalogue: Path | str | None = None) -> None:
    """Raise AssertionError with all problems: refusals by a push, and functions unknown to a host.

    `catalogue`: file with the crawlers, for a check of the crawls' names.
    """
    try:
        definition = workflow.check().definition()
    except LifecycleError as error:
        raise AssertionError(str(error)) from error
    problems = [*_unknown_functions(definition), *_unknown_crawlers(definition, catalogue)]
    if problems:
        raise AssertionError("\n".join(problems))


def _unknown_functions(definition: FlowDefinition) -> list[str]:
    steps = {member.path: member.work for member in definition.members if isinstance(member.work, StepWork)}
    steps |= {group.path: group.template for group in definition.groups if group.template is not None}
    problems = []
    for path, work in steps.items():
        try:
            loaded(work.function)
        except LifecycleError as error:
            problems.append(f"{path}: {error}")
    return problems


def _unknown_crawlers(definition: FlowDefinition, catalogue: Path | str | None) -> list[str]:
    if catalogue is None:
        return []
    from crawler_lifecycle.clusters.adapters.catalogue import Catalogue

    crawlers = Catalogue.load(Path(catalogue)).names()
    crawls = {member.path: member.work for member in definition.members if isinstance(member.work, CrawlWork)}
    return [
        f"{path}: the catalogue {catalogue} has no crawler {work.request.crawler!r}"
        for path, work in crawls.items()
        if work.request.crawler not in crawlers
    ]
