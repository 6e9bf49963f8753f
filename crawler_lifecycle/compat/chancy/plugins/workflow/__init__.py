"""Chancy's workflows: our own classes, and the plugin with Chancy's doors to the client."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TextIO

from crawler_lifecycle.compat.chancy.plugin import Plugin, say
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Sequence, WorkflowStep, generate_dot
from crawler_lifecycle.flows import Workflow as OwnWorkflow
from crawler_lifecycle.flows.rules.pruning import AFTER_A_DAY, Age, Rule

if TYPE_CHECKING:
    from crawler_lifecycle.client import WorkflowClient

__all__ = [
    "CircularDependencyError",
    "EmptyWorkflowError",
    "InvalidDependencyError",
    "Sequence",
    "Workflow",
    "WorkflowPlugin",
    "WorkflowStep",
]

CircularDependencyError = EmptyWorkflowError = InvalidDependencyError = BadInput


class Workflow(OwnWorkflow):
    """Our own workflow. As in Chancy, a dependency may be added after its dependent; a push checks the graph."""

    def __init__(self, *args: Any, check_deps: bool = False, **options: Any) -> None:
        super().__init__(*args, check_deps=check_deps, **options)

    def validate(self) -> None:
        """Raise BadInput for a graph that a push refuses."""
        self.check()


class WorkflowPlugin(Plugin):
    """Chancy's class methods. The numbers have no effect, since nothing is polled; the rule acts in `cleanup`."""

    class Rules:
        Age = Age

    def __init__(
        self,
        *,
        polling_interval: int = 1,
        max_workflows_per_run: int = 1000,
        pruning_rule: Rule | None = None,
        max_pending_workflows: int = 10_000,
    ) -> None:
        self.polling_interval = polling_interval
        self.max_workflows_per_run = max_workflows_per_run
        self.max_pending_workflows = max_pending_workflows
        self.pruning_rule = AFTER_A_DAY if pruning_rule is None else pruning_rule

    def api_plugin(self) -> str:
        return "crawler_lifecycle.compat.chancy.plugins.workflow.api.WorkflowApiPlugin"

    def migrate_key(self) -> str:
        """Return Chancy's key. `crawlctl db upgrade` migrates all the service's tables at once."""
        say("WorkflowPlugin.migrate_key", "crawlctl db upgrade migrates the service's tables")
        return "workflow"

    def migrate_package(self) -> str:
        """Return the package with the service's migrations. `crawlctl db upgrade` runs the migrations."""
        say("WorkflowPlugin.migrate_package", "crawlctl db upgrade migrates the service's tables")
        return "crawler_lifecycle.database.migrations"

    async def process_workflow(self, chancy: "WorkflowClient", workflow: OwnWorkflow) -> None:
        """Read the present states into the workflow. Its supervisor alone advances a workflow."""
        say("WorkflowPlugin.process_workflow", f"the supervisor of {workflow.id} advances it; the states are read")
        present = await chancy.fetch_one(workflow.id)
        if present is not None:
            workflow.state, workflow.updated_at = present.state, present.updated_at
            for name, step in present:
                if name in workflow.steps:
                    workflow[name].state, workflow[name].job_id = step.state, step.job_id

    async def cleanup(self, chancy: "WorkflowClient") -> int | None:
        """Delete ended workflows by the rule; return their number, and None for none."""
        return await chancy.prune(self.pruning_rule) or None

    @classmethod
    async def push(cls, chancy: "WorkflowClient", workflow: OwnWorkflow) -> str:
        """Store the workflow, and return its id."""
        return await chancy.push(workflow)

    @classmethod
    async def fetch_workflow(cls, chancy: "WorkflowClient", id_: str) -> OwnWorkflow | None:
        return await chancy.fetch_one(id_)

    @staticmethod
    async def fetch_workflows(
        chancy: "WorkflowClient",
        *,
        states: Collection[str] | None = None,
        ids: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[OwnWorkflow]:
        return await chancy.fetch(states=states, ids=ids, limit=limit)

    @classmethod
    async def wait_for_workflow(
        cls, chancy: "WorkflowClient", workflow_id: str, *, interval: float = 1, timeout: float | None = None
    ) -> OwnWorkflow:
        """Return the workflow at its end; TimeoutError after the timeout, KeyError if unknown.

        The interval has no effect: the end is not polled.
        """
        del interval
        return await chancy.wait(workflow_id, timeout=timeout)

    @staticmethod
    def generate_dot(workflow: OwnWorkflow, output: TextIO) -> None:
        """Write a picture for Graphviz with all jobs and their states."""
        generate_dot(workflow, output)
