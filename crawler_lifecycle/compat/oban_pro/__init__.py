"""Oban Pro's workflows."""

from typing import Any

from crawler_lifecycle import flows
from crawler_lifecycle.flows import FlowStatus as WorkflowStatus
from crawler_lifecycle.flows import Graph

__all__ = ["Graph", "Workflow", "WorkflowStatus"]


class Workflow(flows.Workflow):
    """Our own workflow, with Oban's positions: the id comes first."""

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 - Oban's name
        name: str | None = None,
        check_deps: bool = True,
        ignore_cancelled: bool = False,
        ignore_discarded: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            name,
            id=id,
            check_deps=check_deps,
            ignore_cancelled=ignore_cancelled,
            ignore_discarded=ignore_discarded,
            **options,
        )
