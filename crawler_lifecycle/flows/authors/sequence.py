"""Sequence: jobs in a chain, with the names step_0, step_1, ..."""

from collections.abc import Callable, Iterable
from typing import Any, Self

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.jobs import Job
from crawler_lifecycle.flows.authors.marks import as_job
from crawler_lifecycle.flows.authors.open_client import FlowClient, open_client
from crawler_lifecycle.flows.authors.workflow import Workflow


class Sequence:
    """A workflow where every job depends on the job before."""

    def __init__(self, name: str, jobs: Iterable[Job | Callable[..., Any]] | None = None) -> None:
        self.name = name
        self.jobs: list[Job] = []
        for job in jobs or ():
            self.add(job)

    def add(self, job: Job | Callable[..., Any]) -> Self:
        """Add a job at the end."""
        self.jobs.append(as_job(f"step_{len(self.jobs)}", job))
        return self

    def workflow(self) -> Workflow:
        """Return the sequence as a workflow, with a new id."""
        if not self.jobs:
            raise BadInput("sequence", f"{self.name!r} has no jobs")
        workflow = Workflow(self.name)
        for number, job in enumerate(self.jobs):
            workflow.add(f"step_{number}", job, deps=f"step_{number - 1}" if number else ())
        return workflow

    async def push(self, chancy: FlowClient | None = None) -> str:
        """Store the sequence with a client, and return its workflow's id. Default: the innermost open client.

        Every push makes a new flow.
        """
        return await (chancy or open_client()).push_definition(self.workflow().definition())

    async def run(self) -> None:
        """Run the sequence from the author's program, as `Workflow.run` does."""
        await self.workflow().run()
