"""Jobs leave the cluster when everything about them is on record, and no run's end depends on it."""

import pytest
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import Removal
from crawler_lifecycle.model.states import RunStatus
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script, in_turn

REQUEST = RunRequest(crawler="books")


async def end_of(play: Play, script: Script) -> RunStatus:
    async with play(script) as stage:
        handle = await stage.start(REQUEST)
        outcome = await handle.result()
    return RunStatus(outcome["status"])


async def test_a_look_removes_what_it_found_over_and_the_end_all_that_is_left(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 3 else 0, removable=lambda look: "4-6" if look == 2 else "")
    await end_of(play, script)
    assert [step.tasks for step in script.inputs("remove_jobs")] == ["4-6", ""]
    assert script.names.index("remove_jobs") < script.names.index("update_run_status")


async def test_the_logs_of_removed_jobs_are_there_for_the_export(play: Play) -> None:
    script = Script()
    await end_of(play, script)
    order = [name for name in script.names if name in ("update_run_status", "remove_jobs", "export_supporting_files")]
    assert order == ["update_run_status", "remove_jobs", "export_supporting_files"]


async def test_a_cluster_that_keeps_ended_jobs_as_records_is_asked_for_no_removal(play: Play) -> None:
    script = Script(records_stay=True)
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert "remove_jobs" not in script.names
    assert "export_supporting_files" in script.names


async def test_further_pages_are_asked_for(play: Play) -> None:
    script = Script(removals=in_turn(Removal(rest="100-200"), Removal(rest="200"), Removal()))
    await end_of(play, script)
    assert [step.tasks for step in script.inputs("remove_jobs")] == ["", "100-200", "200"]


async def test_jobs_that_have_to_stay_are_removed_after_the_export(play: Play) -> None:
    script = Script(removals=in_turn(Removal(left=2), Removal(left=1), Removal()))
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert script.names[-2:] == ["remove_jobs", "remove_jobs"]
    assert script.names.index("export_supporting_files") < len(script.names) - 2


async def test_jobs_that_stay_for_ever_do_not_keep_the_workflow_open(play: Play) -> None:
    script = Script(removals=lambda: Removal(left=1))
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert script.names.count("remove_jobs") == 5


async def test_a_cluster_that_removes_nothing_changes_no_end(play: Play) -> None:
    script = Script(failing=["remove_jobs"], removable=lambda look: "0")
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert "export_supporting_files" in script.names


@pytest.mark.system
async def test_a_look_is_held_up_by_no_more_than_minutes_of_it(play: Play) -> None:
    """Each page succeeds at the fourth try. What is left is for the next look, or the end."""
    pages, tries = 60, iter(range(1000))
    script = Script(alive=lambda look: 1 if look < 2 else 0, removable=lambda look: "0-5999" if look == 1 else "")
    script.removals = lambda: Removal(rest="100-5999" if next(answers) < pages else "")
    answers = iter(range(1000))

    async def refuse() -> None:
        if script.looks == 1 and next(tries) % 4 < 3:
            raise ApplicationError("one of its jobs cannot be removed", type="TemporaryError")

    script.before = {"remove_jobs": refuse}
    assert await end_of(play, script) is RunStatus.COMPLETED
    second_look = [name for name in script.names if name in ("remove_jobs", "get_active_running_tasks")]
    in_the_first = second_look.index("get_active_running_tasks", 1) - 1
    assert in_the_first // 4 < pages / 2
    assert in_the_first > 4, "one page that fails keeps no other"


async def test_what_never_ends_is_forced_after_the_look_that_showed_it(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 3 else 0, unwanted=lambda look: "4" if look == 1 else "")
    async with play(script) as stage:
        assert (await (await stage.start(RunRequest(crawler="books"))).result())["status"] == "COMPLETED"
    assert [step.tasks for step in script.inputs("k8_stop_unwanted")] == ["4"]
    assert "k8_stop_pod" not in script.names
