"""While the event bus was away, nothing was archived: for an hour after the end of a run, and never by an export that
was asked for."""

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from temporalio.client import WorkflowFailureError

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import ExportAgain, ExportedEnd, ExportsOwed, RunPlan
from crawler_lifecycle.model.states import RunStatus, Trigger
from crawler_lifecycle.runs.model import TakenOver, TakeOver
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script

pytestmark = pytest.mark.regression(
    "While the event bus was away, nothing was archived, not even by an export on request"
)

EVENT, ARCHIVE = "initiate_export_signal", "export_supporting_files"


def waiting_for_the_archive() -> Script:
    """Its event is taken by nobody before there is an archive."""
    script, there = Script(), asyncio.Event()

    async def arrive() -> None:
        there.set()

    async def wait() -> None:
        await there.wait()

    script.before |= {EVENT: wait, ARCHIVE: arrive}
    return script


@pytest.mark.long
async def test_a_run_is_archived_while_its_event_waits(play: Play) -> None:
    script = waiting_for_the_archive()
    async with play(script) as stage, asyncio.timeout(60):
        assert (await (await stage.start(RunRequest(crawler="books"))).result())["status"] == "COMPLETED"


async def exported(play: Play, script: Script, step: ExportedEnd) -> None:
    async with play(script) as stage, asyncio.timeout(60):
        await stage.client.execute_workflow(
            "RunExportWorkflow", step, id=f"export-{uuid4()}", task_queue=stage.task_queue
        )


async def test_an_export_that_is_asked_for_archives_while_its_event_waits(play: Play) -> None:
    script = waiting_for_the_archive()
    await exported(play, script, ExportedEnd(run=script.run))


async def test_what_is_refused_of_an_export_keeps_back_nothing_else(play: Play) -> None:
    script = Script(failing=[EVENT])
    owed = ExportsOwed(events=[3, 2], archives=[1])
    with pytest.raises(WorkflowFailureError):
        await exported(play, script, ExportAgain(run=script.run, end=3, owed=owed))
    assert [step.end for step in script.inputs(EVENT)] == [3, 2]
    assert [step.end for step in script.inputs(ARCHIVE)] == [3, 1]


async def test_of_a_run_that_is_over_only_what_is_owed_is_exported(play: Play) -> None:
    script = Script()

    def taken(step: TakeOver) -> TakenOver:
        plan = RunPlan(run=script.run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=datetime.now(UTC), end=2)
        return TakenOver(plan=plan, status=RunStatus.COMPLETED, owed=ExportsOwed(events=[1]))

    script.taken = taken
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", run_id=7))).result()
    assert [step.end for step in script.inputs(EVENT)] == [1]
    assert script.inputs(ARCHIVE) == []
