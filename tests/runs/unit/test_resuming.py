"""Going on with a run that exists, from wherever it stands."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import Intent, RunStatus, Trigger
from crawler_lifecycle.runs.model import TakenOver, TakeOver
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script, moments
from tests.runs.stages import END, LOOK
from tests.runs.stops import CLOSING, Held, assert_in_order, on_record, until_asked

RESUME = RunRequest(crawler="books", run_id=7)


def resumed(status: RunStatus, intent: Intent = Intent.RUN, *, exported: bool = False) -> Script:
    script = Script()

    def taken(step: TakeOver) -> TakenOver:
        begun = datetime.now(UTC) - timedelta(minutes=4)
        run = script.run.model_copy(update={"epoch": 2})
        plan = RunPlan(run=run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=begun)
        started = None if status is RunStatus.INITIALIZING else begun
        return TakenOver(plan=plan, status=status, intent=intent, started_at=started, exported=exported)

    script.taken = taken
    script.alive = until_asked(script) if intent is not Intent.RUN else lambda look: 0
    return script


@pytest.mark.parametrize("again", [False, True])
async def test_a_stop_that_is_gone_on_with_counts_from_when_it_was_asked_for(play: Play, again: bool) -> None:
    """Else what ended by it before the resume would have failed by itself."""
    script, asked_at = resumed(RunStatus.STOPPING, Intent.STOP), datetime(2026, 11, 20, 9, tzinfo=UTC)
    taken = script.taken
    script.taken = lambda step: taken(step).model_copy(update={"stopped_at": asked_at})
    async with play(script) as stage:
        await (await stage.start(RESUME, **({"start_signal": "stop"} if again else {}))).result()
    assert {step.stopped_at for step in script.inputs("get_history_statuses_to_sync")} == {asked_at}


@pytest.mark.system
async def test_the_grace_period_goes_on_over_a_resume(play: Play) -> None:
    script = resumed(RunStatus.STOPPING, Intent.STOP)
    asked_at, before, killed = datetime.now(UTC) - timedelta(seconds=590), script.taken, list[datetime]()

    def taken(step: TakeOver) -> TakenOver:
        found = before(step)
        assert found.plan
        plan = found.plan.model_copy(update={"grace_seconds": 600})
        return found.model_copy(update={"stopped_at": asked_at, "jobs_asked_at": asked_at, "plan": plan})

    script.taken, script.alive = taken, lambda look: 0 if "k8_stop_pod" in script.names else 1
    script.before["k8_stop_pod"] = moments(killed)
    async with play(script) as stage:
        await (await stage.start(RESUME)).result()
    assert timedelta(seconds=600) <= killed[0] - asked_at < timedelta(seconds=660)


@pytest.mark.system
async def test_jobs_that_nobody_asked_before_a_resume_have_all_their_grace(play: Play) -> None:
    """The wish was on record, and nobody was there to act on it."""
    script = resumed(RunStatus.STOPPING, Intent.STOP)
    taken, asked, killed = script.taken, list[datetime](), list[datetime]()
    script.taken = lambda step: taken(step).model_copy(update={"stopped_at": datetime.now(UTC) - timedelta(hours=1)})
    script.alive = lambda look: 0 if "k8_stop_pod" in script.names else 1
    script.before |= {"k8_stop_task": moments(asked), "k8_stop_pod": moments(killed)}
    async with play(script) as stage:
        await (await stage.start(RESUME)).result()
    assert killed[0] - asked[0] >= timedelta(seconds=29)


@pytest.mark.long
async def test_a_stop_while_an_end_is_handed_over_is_on_record(play: Play) -> None:
    script = resumed(RunStatus.COMPLETED)
    held = Held(script, "update_run_status")
    async with play(script) as stage, asyncio.timeout(40):
        handle = await stage.start(RESUME)
        await held.reached.wait()
        await handle.execute_update("stop", {"actor": "ann"})
        held.go_on.set()
        await handle.result()
    assert on_record(script) == ["ann"]


async def test_a_stop_of_a_run_that_belongs_to_another_workflow_is_not_lost_silently(play: Play) -> None:
    script = Script(taken=lambda step: TakenOver(status=RunStatus.PROCESSING, supervised_by="crawl-1"))
    held = Held(script, "take_over_run")
    async with play(script) as stage, asyncio.timeout(40):
        handle = await stage.start(RESUME)
        await held.reached.wait()
        await handle.signal("stop", {"actor": "ann"})
        held.go_on.set()
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
    assert "belongs to workflow crawl-1" in str(failure.value.cause)
    assert "hand_over_run" in script.names


async def test_what_was_never_started_is_deployed(play: Play) -> None:
    script = resumed(RunStatus.INITIALIZING)
    async with play(script) as stage:
        assert (await (await stage.start(RESUME)).result())["status"] == "COMPLETED"
    assert script.names == [
        "take_over_run", "run_onetime_crawler", "get_main_job_status", "update_run_started", "signal_pusher_started",
        *LOOK, *END,
    ]  # fmt: skip
    assert {given.run.epoch for name, given in script.calls if hasattr(given, "run")} == {2}


async def test_what_had_started_is_looked_at_at_once(play: Play) -> None:
    script = resumed(RunStatus.PROCESSING)
    async with play(script) as stage:
        assert (await (await stage.start(RESUME)).result())["status"] == "COMPLETED"
    assert script.names == ["take_over_run", "signal_pusher_started", *LOOK, *END]


async def test_looks_keep_their_times_over_a_resume(play: Play) -> None:
    script = resumed(RunStatus.PROCESSING)
    script.alive = lambda look: 1 if look < 4 else 0
    async with play(script) as stage:
        handle = await stage.start(RESUME)
        await handle.result()
        begun = script.inputs("take_over_run") and (await handle.describe()).start_time - timedelta(minutes=4)
    due = [round((step.next_look_at - begun) / timedelta(minutes=1)) for step in script.inputs("count_alive_tasks")]
    assert due == [6, 11, 19, 34]


@pytest.mark.parametrize("intent", [Intent.STOP, Intent.FORCE])
async def test_a_stop_that_was_under_way_is_finished(play: Play, intent: Intent) -> None:
    script = resumed(RunStatus.STOPPING, intent)
    async with play(script) as stage:
        assert (await (await stage.start(RESUME)).result())["reason"] == "stopped"
    assert_in_order(script.names, ["take_over_run", "cancel_queued_tasks", "k8_stop_task", *CLOSING])
    assert ("k8_stop_pod" in script.names) == (intent is Intent.FORCE)


@pytest.mark.parametrize("exported", [True, False])
async def test_a_run_that_is_over_is_only_handed_over(play: Play, exported: bool) -> None:
    script = resumed(RunStatus.COMPLETED, exported=exported)
    async with play(script) as stage:
        assert (await (await stage.start(RESUME)).result())["status"] == "COMPLETED"
    expected = ["take_over_run", "update_run_status", "signal_pusher_finished", "remove_jobs"]
    assert script.names == (expected if exported else [*expected, *END[-2:]])


async def test_another_workflows_run_is_left_to_it(play: Play) -> None:
    script = Script(taken=lambda step: TakenOver(status=RunStatus.PROCESSING, supervised_by="crawl-books-1"))
    async with play(script) as stage:
        result = await (await stage.start(RESUME)).result()
    assert result == {"run_id": 7, "workflow_id": "crawl-books-1"}
    assert script.names == ["take_over_run", "hand_over_run"]


async def test_reopening_is_passed_on(play: Play) -> None:
    script = resumed(RunStatus.PROCESSING)
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", run_id=7, reopen=True))).result()
    assert script.inputs("take_over_run")[0].reopen


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"crawler": "books", "reopen": True}, "reopen: only together with the run_id"),
        ({"crawler": "books", "run_id": 7, "tasks": 4}, "tasks: not together with run_id"),
        ({"crawler": "books", "run_id": 7, "arguments": {"a": "b"}}, "arguments: not together with run_id"),
        ({"crawler": "books", "run_id": 0}, "run_id: expected at least 1, not 0"),
        ({"crawler": "books", "run_id": "7"}, "run_id: expected a whole number"),
    ],
)
async def test_what_makes_no_sense_is_refused(play: Play, request_: dict[str, object], said: str) -> None:
    script = Script()
    async with play(script) as stage:
        handle = await stage.start(request_)
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.message.startswith(said)
    assert script.calls == []
