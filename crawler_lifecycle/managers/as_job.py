"""A crawl manager as a job in a graph."""

from dataclasses import dataclass
from typing import ClassVar

from crawler_lifecycle.contract.flows.work import CallForm
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.functions import reference
from crawler_lifecycle.flows.jobs import START_OPTIONS, StepJob
from crawler_lifecycle.managers.arguments import without_flow_id
from crawler_lifecycle.managers.defining import AnyManager, build


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


def manager(cls: type[AnyManager], *arguments: str) -> ManagerJob:
    """Return a job for a graph that runs the crawl manager with this command line.

    The job's name is the manager's name, and the flow's family, or else its id, is the manager's family. The result has
    `close_reason`, `counts` and `stats`.
    """
    if list(arguments) != without_flow_id(arguments):
        raise BadInput("arguments", "have --flow-id, but the manager's family is the workflow's")
    build(cls, arguments)
    return ManagerJob(function=reference(cls), form=CallForm.MANAGER, arguments=list(arguments))
