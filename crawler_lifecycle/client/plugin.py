"""Chancy's names for the client, for programs from Chancy."""

from collections.abc import Collection
from typing import TextIO

from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.domain.flows.pruning import AFTER_A_DAY, Age, Rule
from crawler_lifecycle.flows import Workflow, generate_dot


class WorkflowPlugin:
    """Chancy's class methods. The constructor's two numbers have no effect, since workflows are not polled."""

    class Rules:
        Age = Age

    def __init__(
        self, *, polling_interval: int = 1, max_workflows_per_run: int = 1000, pruning_rule: Rule = AFTER_A_DAY
    ) -> None:
        self.polling_interval = polling_interval
        self.max_workflows_per_run = max_workflows_per_run
        self.pruning_rule = pruning_rule

    @classmethod
    async def push(cls, client: WorkflowClient, workflow: Workflow) -> str:
        """Put the workflow on record, and return its id."""
        return await client.push(workflow)

    @classmethod
    async def fetch_workflow(cls, client: WorkflowClient, id_: str) -> Workflow | None:
        return await client.fetch_one(id_)

    @staticmethod
    async def fetch_workflows(
        client: WorkflowClient,
        *,
        states: Collection[str] | None = None,
        ids: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[Workflow]:
        return await client.fetch(states=states, ids=ids, limit=limit)

    @classmethod
    async def wait_for_workflow(
        cls,
        client: WorkflowClient,
        workflow_id: str,
        *,
        interval: float = 1,
        timeout: float | None = None,
    ) -> Workflow:
        """Return the workflow at its end; TimeoutError after the timeout, KeyError if unknown."""
        return await client.wait(workflow_id, interval=interval, timeout=timeout)

    @staticmethod
    def generate_dot(workflow: Workflow, output: TextIO) -> None:
        """Write a picture for Graphviz with all jobs and their states."""
        generate_dot(workflow, output)

    async def cleanup(self, client: WorkflowClient) -> int | None:
        """Delete ended workflows by the rule; return their number, and None for none."""
        return await client.prune(self.pruning_rule) or None
