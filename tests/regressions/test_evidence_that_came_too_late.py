"""A cluster that was too busy for two minutes told nothing of 32 tasks that had ended. Nobody asked again, and their
jobs were removed: where they had run, and what they had printed last, was never known."""

from temporalio.exceptions import ApplicationError

from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.contract.steps import Removal, TaskChange
from crawler_lifecycle.domain.ranges import from_ranges
from crawler_lifecycle.workflows.evidence import LONG_HISTORY
from tests.plays import Play
from tests.workflows.script import Script, in_turn

BOOKS = RunRequest(crawler="books", tasks=8)
EVIDENCE = "get_bulk_task_history_data"
IN_A_LOOK, AT_THE_END = 6, 20  # tries


def over(*tasks: int) -> list[TaskChange]:
    return [TaskChange(task=task, attempt=1, version=1, status=TaskStatus.SUCCEEDED) for task in tasks]


async def end_of(play: Play, script: Script, **options: object) -> RunStatus:
    async with play(script) as stage:
        handle = await stage.start(BOOKS, **options)
        outcome = await handle.result()
    return RunStatus(outcome["status"])


def removed(script: Script) -> list[str]:
    return [step.tasks for step in script.inputs("remove_jobs")]


async def test_it_is_asked_for_again_and_meanwhile_only_the_other_jobs_leave(play: Play) -> None:
    script = Script(
        alive=lambda look: 1 if look < 5 else 0,
        changes=lambda look: {1: over(4), 2: over(5, 6)}.get(look, []),
        removable=lambda look: "" if look == 1 else "4-6",
    )

    async def refuse_in_the_second_look() -> None:
        if script.looks == 2 and script.names.count(EVIDENCE) == 2:
            script.failures[EVIDENCE] = IN_A_LOOK + 1  # and once after it

    script.before = {EVIDENCE: refuse_in_the_second_look}
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert removed(script) == ["4", "4", "4-6", "4-6", ""]
    assert [item.task for step in script.inputs("reconcile_tasks") for item in step.items] == [4, 5, 6]
    steps = [name for name in script.names if name in ("sync_statuses", "reconcile_tasks")]
    assert steps == ["reconcile_tasks", "sync_statuses", "sync_statuses", "reconcile_tasks", "reconcile_tasks"]


async def test_the_end_asks_again_before_the_jobs_leave_and_before_the_export(play: Play) -> None:
    script = Script(changes=lambda look: over(0, 1), failures={EVIDENCE: IN_A_LOOK + AT_THE_END - 1})
    assert await end_of(play, script) is RunStatus.COMPLETED
    order = [name for name in script.names if name in ("reconcile_tasks", "remove_jobs", "export_supporting_files")]
    assert order == ["remove_jobs", "reconcile_tasks", "reconcile_tasks", "remove_jobs", "export_supporting_files"]
    assert removed(script) == ["2-7", "0-1"], "what is known leaves at once"


async def test_the_end_of_a_stop_does_so_too(play: Play) -> None:
    script = Script(changes=lambda look: over(0), failures={EVIDENCE: IN_A_LOOK})
    await end_of(play, script, start_signal="stop", start_signal_args=[{"actor": "ann"}])
    assert removed(script) == ["1-7", "0"]
    assert "reconcile_tasks" not in script.names[script.names.index("export_supporting_files") :]


async def test_a_run_does_not_wait_for_it_for_ever_and_its_jobs_stay(play: Play) -> None:
    script = Script(changes=lambda look: over(0, 1), failures={EVIDENCE: 1000})
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert "export_supporting_files" in script.names
    assert removed(script) == ["2-7"], "nothing else has changed since"
    assert script.names.count(EVIDENCE) == IN_A_LOOK + AT_THE_END + 4


async def test_of_a_run_of_which_nothing_is_known_nothing_leaves(play: Play) -> None:
    script = Script(changes=lambda look: over(*range(8)), failing=[EVIDENCE])
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert removed(script) == []


async def test_what_comes_after_the_export_lets_the_jobs_leave(play: Play) -> None:
    script = Script(changes=lambda look: over(0), failures={EVIDENCE: IN_A_LOOK + AT_THE_END + 1})
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert removed(script) == ["1-7", "0"]


async def test_so_do_those_that_had_to_stay_for_another_reason(play: Play) -> None:
    script = Script(
        changes=lambda look: over(0),
        failures={EVIDENCE: IN_A_LOOK + AT_THE_END + 1},
        removals=in_turn(Removal(left=1), Removal(left=1), Removal()),
    )
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert removed(script) == ["1-7", "1-7", ""]


async def test_of_a_page_that_was_had_nothing_is_asked_again(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 3 else 0, changes=lambda look: over(0, 1) if look == 1 else [])
    tries = iter(range(1000))

    async def refuse_the_second_page() -> None:
        if 1 <= next(tries) <= IN_A_LOOK:
            script.failures[EVIDENCE] = 1

    script.before = {EVIDENCE: refuse_the_second_page}
    assert await end_of(play, script) is RunStatus.COMPLETED
    assert [step.tasks for step in script.inputs(EVIDENCE)] == ["0-1", *["1"] * IN_A_LOOK, "1"]


async def test_statuses_wait_no_longer_for_many_than_for_one(play: Play) -> None:
    """Each page of the first look succeeds at the fourth try, after seven seconds."""
    pages, tries = 60, iter(range(1000))
    script = Script(
        alive=lambda look: 1 if look < 3 else 0, changes=lambda look: over(*range(pages)) if look == 1 else []
    )

    async def refuse() -> None:
        if "sync_statuses" not in script.names and next(tries) % 4 < 3:
            raise ApplicationError("it does not answer in time", type="TemporaryError")

    script.before = {EVIDENCE: refuse}
    assert await end_of(play, script) is RunStatus.COMPLETED
    before_the_status = script.names[: script.names.index("sync_statuses")].count("reconcile_tasks")
    assert 5 < before_the_status < pages / 2
    known = [item.task for step in script.inputs("reconcile_tasks") for item in step.items]
    assert known == list(range(pages)), "the others are asked for afterwards, each once"


async def test_a_history_that_has_become_long_takes_no_more_of_it_and_the_run_ends(play: Play) -> None:
    """All of it would take three times what Temporal allows before it ends a workflow itself."""
    tasks, megabyte = 80, "x" * 1_000_000
    script = Script(changes=lambda look: over(*range(tasks)), log_tail=megabyte)
    async with play(script) as stage:
        handle = await stage.start(BOOKS.model_copy(update={"tasks": tasks}))
        assert RunStatus((await handle.result())["status"]) is RunStatus.COMPLETED
        size = (await handle.describe()).raw_description.workflow_execution_info.history_size_bytes
    assert LONG_HISTORY < size < 1.5 * LONG_HISTORY
    known = [item.task for step in script.inputs("reconcile_tasks") for item in step.items]
    assert known == list(range(len(known)))
    assert 0 < len(known) < tasks / 2
    assert [task for tasks in removed(script) for task in from_ranges(tasks)] == known, "the jobs of the others stay"
