"""A full cluster shows in Temporal's lists as long as it lasts; what lives on although it is over is ended."""

import pytest
from temporalio.client import WorkflowHistory

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.runs.model import MainJobStatus
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import STARTED, Script, in_turn

REQUEST = RunRequest(crawler="books")


def listed(history: WorkflowHistory) -> list[str]:
    """What `CrawlSaturated` was set to, in order."""
    found = [
        event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        for event in history.events
    ]
    return [fields["CrawlSaturated"].data.decode() for fields in found if "CrawlSaturated" in fields]


async def history_of(play: Play, script: Script) -> WorkflowHistory:
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        await handle.result()
        return await handle.fetch_history()


@pytest.mark.long
async def test_it_is_listed_once_and_taken_off_the_list_again(play: Play) -> None:
    full = MainJobStatus(cause="quota", saturated="quota")
    script = Script(
        statuses=in_turn(MainJobStatus(cause="quota"), full, full, STARTED),
        alive=lambda look: 1 if look < 4 else 0,
        saturated=lambda look: "unschedulable" if look in (2, 3) else None,
        search_attributes=True,
    )
    history = await history_of(play, script)
    assert listed(history) == ['"quota"', "", '"unschedulable"', ""]
    assert [step.saturated for step in script.inputs("count_alive_tasks")] == [None, *["unschedulable"] * 2, None]


async def test_without_search_attributes_nothing_is_listed(play: Play) -> None:
    script = Script(saturated=lambda look: "quota", alive=lambda look: 1 if look < 2 else 0)
    assert listed(await history_of(play, script)) == []


async def test_the_job_of_a_task_that_is_over_is_asked_to_end(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 3 else 0, unwanted=lambda look: "5" if look == 1 else "")
    await history_of(play, script)
    assert [step.tasks for step in script.inputs("k8_stop_unwanted")] == ["5"]
