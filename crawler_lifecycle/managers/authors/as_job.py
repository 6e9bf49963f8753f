"""A crawl manager as a job in a graph."""

from dataclasses import dataclass
from typing import ClassVar, overload

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.functions import reference
from crawler_lifecycle.flows.authors.jobs import START_OPTIONS, NamedManagerJob, StepJob
from crawler_lifecycle.flows.model.work import CallForm, ManagerWork
from crawler_lifecycle.managers.authors.arguments import without_flow_id
from crawler_lifecycle.managers.authors.defining import AnyManager, build
from crawler_lifecycle.model.requests import refusals_as_bad_input


@dataclass(frozen=True, kw_only=True)
class ManagerJob(StepJob):
    """A crawl manager. Its limits of time and its tries are the manager's own."""

    options: ClassVar[tuple[str, ...]] = (*START_OPTIONS, "queue")

    def with_arguments(self, arguments: object) -> "ManagerJob":
        raise BadInput("arguments", f"{self.title} takes its command line in manager(...), and not {arguments!r}"[:200])

    def _with(self, name: str, value: object) -> "ManagerJob":
        if name not in self.options:
            raise BadInput(name, f"is no option of a manager; possible are {', '.join(self.options)}")
        return super()._with(name, value)


@overload
def manager(target: str, *arguments: str) -> NamedManagerJob: ...
@overload
def manager(target: type[AnyManager], *arguments: str) -> ManagerJob: ...
def manager(target: type[AnyManager] | str, *arguments: str) -> ManagerJob | NamedManagerJob:
    """Return a job for a graph that runs the crawl manager with this command line.

    `target`: the class, or a name in the catalogue, which any machine may push. The job's name is the manager's name,
    and the flow's family, or else its id, is the manager's family. The result has `close_reason`, `counts` and `stats`.
    """
    if list(arguments) != without_flow_id(arguments):
        raise BadInput("arguments", "have --flow-id, but the manager's family is the workflow's")
    if isinstance(target, str):
        with refusals_as_bad_input():
            return NamedManagerJob(named=ManagerWork(manager=target, arguments=arguments))
    build(target, arguments)
    return ManagerJob(function=reference(target), form=CallForm.MANAGER, arguments=list(arguments))
