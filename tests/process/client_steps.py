"""An author's module whose steps use their host's client."""

import asyncio
from typing import Any

from crawler_lifecycle.client import Flows
from crawler_lifecycle.flows import Context, RunningJob, Worker, Workflow, blocking, worker
from crawler_lifecycle.flows.authors.functions import step


def first(context: Context) -> int:
    return 7


async def on_loop(context: Context) -> dict[str, Any]:
    flow = Workflow.for_job(context.job)
    return {"state": (await flow.status()).state.value, "first": await flow.get_recorded("first")}


def in_thread(context: Context) -> dict[str, Any]:
    flow = Workflow.for_job(context.job)
    return {"state": blocking(flow.status()).state.value, "first": blocking(flow.get_recorded("first"))}


alone = step(isolate=True)(in_thread)


async def push_another(context: Context) -> str:
    return await Flows.current().push(Workflow("another", id=f"{context.job.flow_id}-more").add("one", first))


@worker()
class Grafter(Worker):
    """A grafter as on Oban's page: it attaches its sub-workflow by the client."""

    async def process(self, job: RunningJob) -> None:
        await Flows.current().enqueue_many(Workflow.apply_graft(job, Workflow().add("grafted", first)))


async def wait_for_itself(context: Context) -> None:
    await asyncio.wait_for(Flows.current().wait(context.job.flow_id), 30)
