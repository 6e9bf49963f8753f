"""A busy worker took a hundred workflow tasks at once, with the steps of the database inside of the tasks. Tasks took
longer than their ten seconds, Temporal gave them out again, and the worker called their steps a second time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, BrokenBarrierError
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.plugin import SimplePlugin
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner

from crawler_lifecycle.processes.lifecycle import make_worker
from crawler_lifecycle.settings.processes import WorkerSettings

pytestmark = pytest.mark.regression(
    "A busy worker took so many workflow tasks at once that Temporal gave them, and their steps, out twice"
)

SLOTS = 2
NO_MORE_COME = 1.0  # seconds


@workflow.defn(name="with_a_step_in_its_task")
class WithAStepInItsTask:
    @workflow.run
    async def run(self) -> bool:
        result: bool = await workflow.execute_local_activity("step", start_to_close_timeout=timedelta(seconds=8))
        return result


@pytest.mark.long
async def test_a_worker_takes_few_workflow_tasks_at_once(real_time: WorkflowEnvironment) -> None:
    one_too_many = Barrier(SLOTS + 1)

    @activity.defn(name="step")
    def step() -> bool:
        """Return whether more steps ran at once than the worker has slots for their tasks."""
        try:
            one_too_many.wait(NO_MORE_COME)
        except BrokenBarrierError:
            return False
        return True

    plugin = SimplePlugin(
        "steps", workflows=[WithAStepInItsTask], activities=[step], workflow_runner=UnsandboxedWorkflowRunner()
    )
    settings = WorkerSettings(task_queue=f"slots-{uuid4()}", workflow_slots=SLOTS)
    client = real_time.client
    with ThreadPoolExecutor(settings.activity_slots) as threads:
        async with make_worker(client, plugin, settings, threads):
            handles = [
                await client.start_workflow(WithAStepInItsTask.run, id=f"{uuid4()}", task_queue=settings.task_queue)
                for _ in range(SLOTS + 1)
            ]
            results = [await handle.result() for handle in handles]
    assert not any(results)
