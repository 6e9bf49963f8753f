"""A part of a running stack is killed with -9, in the middle of things: every run ends, and ends with the truth."""

import pytest
import pytest_asyncio

from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.states import ExportState, RunStatus, TaskStatus
from tests.kit.waiting import eventually
from tests.process.crawls import PATIENCE, Site, held

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cut_off(stack: Site) -> Started:
    """A run whose export was under way when the worker was killed. That is missed late: other tests go on meanwhile."""
    run = await stack.start("big")
    await stack.until_running(run, 1)
    stack.release(run, 0)
    await stack.under_way(run.workflow_id, "export_supporting_files")
    await eventually(lambda: _exports(stack, run).get("run_ended") is ExportState.DONE, patience=PATIENCE)
    with held(stack.state / "exports" / "events.jsonl"):
        await eventually(lambda: "files_ready" in _exports(stack, run), patience=PATIENCE)
        killed = stack.kill("lifecycle")
    assert _exports(stack, run) == {"run_ended": ExportState.DONE, "files_ready": ExportState.PENDING}
    await stack.until_replaced("lifecycle", killed)
    return run


def _exports(stack: Site, run: Started) -> dict[str, ExportState]:
    return {each.kind: each.state for each in stack.details(run).exports}


@pytest.mark.parametrize("part", ["dispatcher", "scheduler", "watcher"])
async def test_a_part_dies_while_a_run_is_being_deployed(stack: Site, part: str) -> None:
    """The deployments of the child tasks are under way: claimed, asked for, not answered."""
    run = await stack.start(tasks=3)
    await eventually(lambda: stack.jobs(run), patience=PATIENCE)
    with held(stack.placing_lock):
        await eventually(lambda: stack.statuses(run)[1:] == [TaskStatus.DEPLOYING] * 2, patience=PATIENCE)
        killed = stack.kill(part)
        await stack.until_replaced(part, killed)
    await stack.until_running(run, 3)
    stack.release(run, 0, 1, 2, codes={2: 7})
    details = await stack.assert_true(run, {0: 0, 1: 0, 2: 7})
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "tasks_failed")


async def test_an_export_that_was_cut_off_is_made_again_under_its_id(stack: Site, cut_off: Started) -> None:
    await stack.assert_true(cut_off, {0: 0})
    [attempt] = (await stack.attempts(cut_off.workflow_id))["export_supporting_files"]
    assert attempt >= 2
    archives = [path.name for path in (stack.state / "exports").iterdir() if cut_off.run_uid in path.name]
    assert len(archives) == 1, "what the first try has left is cleared"
