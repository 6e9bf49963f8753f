"""An execution keeps the generation that it began with, whichever version of the program goes on with it."""

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from crawler_lifecycle.temporal import generation as generations

QUEUE = "generations"


@workflow.defn(name="Aging", sandboxed=False)
class Aging:
    @workflow.run
    async def run(self) -> int:
        return generations.generation()


async def made_by(environment: WorkflowEnvironment, latest: int, monkeypatch: pytest.MonkeyPatch) -> WorkflowHistory:
    monkeypatch.setattr(generations, "GENERATION", latest)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(environment.client, task_queue=QUEUE, workflows=[Aging], workflow_runner=runner):
        handle = await environment.client.start_workflow(Aging.run, id=f"aging-{latest}", task_queue=QUEUE)
        assert await handle.result() == latest
        return await handle.fetch_history()


async def replays(history: WorkflowHistory, latest: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(generations, "GENERATION", latest)
    replayer = Replayer(workflows=[Aging], workflow_runner=UnsandboxedWorkflowRunner())
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    return result.replay_failure is None


def markers(history: WorkflowHistory) -> int:
    return sum(event.HasField("marker_recorded_event_attributes") for event in history.events)


async def test_generations(skipping: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    first, third = [await made_by(skipping, latest, monkeypatch) for latest in (1, 3)]
    assert (markers(first), markers(third)) == (0, 1)
    assert [await replays(first, latest, monkeypatch) for latest in (1, 2, 3)] == [True] * 3
    assert [await replays(third, latest, monkeypatch) for latest in (3, 4)] == [True] * 2
    assert not await replays(third, 2, monkeypatch), "an earlier version leaves alone what it does not know"
