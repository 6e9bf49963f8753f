"""A cluster that was too busy for two minutes told nothing of 32 tasks that had ended. Nobody asked again, and their
jobs were removed: where they had run, and what they had printed last, was never known."""

from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.contract.steps import Removal, TaskChange
from tests.plays import Play
from tests.workflows.script import Script, in_turn

BOOKS = RunRequest(crawler="books")
EVIDENCE = "get_bulk_task_history_data"
IN_A_LOOK, AT_THE_END = 6, 20  # tries


def over(*tasks: int) -> list[TaskChange]:
    return [TaskChange(task=task, attempt=1, version=1, status=TaskStatus.SUCCEEDED) for task in tasks]


async def end_of(play: Play, script: Script, **options: object) -> RunStatus:
    async with play(script) as stage:
        handle = await stage.start(BOOKS, **options)
        outcome = await handle.result()
    return RunStatus(outcome["status"])


async def test_it_is_asked_for_again_and_meanwhile_only_the_other_jobs_leave(play: Play) -> None:
    script = Script(
        alive=lambda look: 1 if look < 5 else 0,
        changes=lambda look: {1: over(4), 2: over(5, 6)}.get(look, []),
        removable=lambda look: "" if look == 1 else "4-6",
    )
    owed_from = 2

    async def refuse_more() -> None:
        if script.looks == owed_from and script.names.count(EVIDENCE) == 2:
            script.failures[EVIDENCE] = IN_A_LOOK + 1  # and that after the third look

    script.before = {EVIDENCE: refuse_more}
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert [step.tasks for step in script.inputs("remove_jobs")] == ["4", "4", "4-6", "4-6", ""]
    assert [item.task for step in script.inputs("reconcile_tasks") for item in step.items] == [4, 5, 6]
    assert script.names.index("sync_statuses") < script.names.index("reconcile_tasks", 20), "no status waits for it"


async def test_the_end_asks_again_before_the_jobs_leave_and_before_the_export(play: Play) -> None:
    script = Script(changes=lambda look: over(0, 1), failures={EVIDENCE: IN_A_LOOK + AT_THE_END - 1})
    assert await end_of(play, script) is RunStatus.COMPLETED
    order = [name for name in script.names if name in ("reconcile_tasks", "remove_jobs", "export_supporting_files")]
    assert order == ["reconcile_tasks", "reconcile_tasks", "remove_jobs", "export_supporting_files"]
    assert [step.stay for step in script.inputs("remove_jobs")] == [""]


async def test_the_end_of_a_stop_does_so_too(play: Play) -> None:
    script = Script(changes=lambda look: over(0), failures={EVIDENCE: IN_A_LOOK})
    await end_of(play, script, start_signal="stop", start_signal_args=[{"actor": "ann"}])
    assert script.names.index("reconcile_tasks") < script.names.index("remove_jobs")


async def test_a_run_does_not_wait_for_it_for_ever_and_its_jobs_stay(play: Play) -> None:
    script = Script(changes=lambda look: over(0, 1), failing=[EVIDENCE])
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert "export_supporting_files" in script.names
    assert [step.stay for step in script.inputs("remove_jobs")] == ["0-1"] * 5


async def test_what_comes_after_the_export_lets_the_jobs_leave(play: Play) -> None:
    script = Script(
        changes=lambda look: over(0),
        failures={EVIDENCE: IN_A_LOOK + AT_THE_END + 1},
        removals=in_turn(Removal(left=1), Removal()),
    )
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert [step.stay for step in script.inputs("remove_jobs")] == ["0", "0", ""]


async def test_of_a_page_that_was_had_nothing_is_asked_again(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 3 else 0, changes=lambda look: over(0, 1) if look == 1 else [])
    tries = iter(range(1000))

    async def refuse_the_second_page() -> None:
        if 1 <= next(tries) <= IN_A_LOOK:
            script.failures[EVIDENCE] = 1

    script.before = {EVIDENCE: refuse_the_second_page}
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert [step.tasks for step in script.inputs(EVIDENCE)] == ["0-1", *["1"] * IN_A_LOOK, "1"]
