"""Hosts of steps as processes, and a small workflow that asks for their steps as a flow's supervisor does."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows.rules.messages import RunSteps, StepsEnded
from crawler_lifecycle.model.naming import steps_queue
from tests.hosts.supervised import planned
from tests.kit.data.flows import Flow
from tests.kit.service.embedded import CRAWLCTL, environment

DOOMED = Path(__file__).with_name("doomed_steps.py")
RESTART_PAUSE = 0.2
PATIENCE = 90.0


@workflow.defn
class AskForSteps:
    @workflow.run
    async def run(self, step: RunSteps) -> StepsEnded:
        answer: StepsEnded = await workflow.execute_activity(
            "run_steps",
            step,
            result_type=StepsEnded,
            task_queue=steps_queue(workflow.info().task_queue, step.route),
            start_to_close_timeout=timedelta(hours=1),
            heartbeat_timeout=timedelta(seconds=3),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=1)
            ),
        )
        return answer


@dataclass
class StepHosts:
    """Processes with a module, for a task queue of their own."""

    client: Client
    database: Database
    folder: Path
    url: str
    module: str = str(DOOMED)
    settings: dict[str, str] = field(default_factory=dict)
    task_queue: str = field(default_factory=lambda: f"hosts-{uuid4()}")
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, *words: str, **more: str) -> asyncio.subprocess.Process:
        ours = {
            "CRAWLER_DATABASE__URL": self.url,
            "CRAWLER_WORKER__TASK_QUEUE": self.task_queue,
            "CRAWLER_FLOWS__LEASE_SECONDS": "2",
            "TEMPORAL_ADDRESS": self.client.service_client.config.target_host,
            "DOOMED_FOLDER": str(self.folder),
        }
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(*CRAWLCTL, "host", *(words or (self.module,))),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self.folder) | ours | self.settings | more,
            )
        self.processes.append(process)
        return process

    @property
    def log(self) -> Path:
        return self.folder / "host.log"

    @property
    def calls(self) -> list[str]:
        """Words that the functions have noted."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @asynccontextmanager
    async def kept_running(self, **more: str) -> AsyncIterator[None]:
        """Keep a host running during the block: a process that ends is started again."""

        async def keep() -> None:
            while True:
                process = await self.start(**more)
                await process.wait()
                await asyncio.sleep(RESTART_PAUSE)

        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeping.cancel()

    async def ask(self, step: RunSteps) -> StepsEnded:
        answer: StepsEnded = await self.client.execute_workflow(
            AskForSteps.run, step, id=f"ask-{uuid4()}", task_queue=self.task_queue
        )
        return answer

    async def go_on(self, flow: Flow) -> None:
        """Let the hosts run the flow's steps to its end."""
        async with asyncio.timeout(PATIENCE):
            while True:
                plan, steps = await asyncio.to_thread(planned, flow)
                if plan.flow_state is not None and plan.flow_state.is_final:
                    return
                await asyncio.gather(*map(self.ask, steps))
                if not steps and plan.is_empty:
                    await asyncio.sleep(0.05)

    async def end_all(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()


@asynccontextmanager
async def step_hosts(
    environment: WorkflowEnvironment, database: Database, url: str, folder: Path
) -> AsyncIterator[StepHosts]:
    hosts = StepHosts(environment.client, database, folder, url)
    worker = Worker(
        environment.client,
        task_queue=hosts.task_queue,
        workflows=[AskForSteps],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        try:
            yield hosts
        finally:
            await hosts.end_all()
