"""While all that is left of a run is suspended its limits of time stand still, and afterwards they count again."""

from datetime import datetime, timedelta

import pytest
from temporalio.activity import info
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import Clock, RunPlan
from crawler_lifecycle.model.states import RunStatus, Trigger
from crawler_lifecycle.runs.model import MainJobStatus, TakenOver, TakeOver
from tests.kit.temporal.plays import Play, played
from tests.kit.temporal.script import STARTED, UNAVAILABLE, Script, in_turn, moments

HOUR = timedelta(hours=1)
SUSPENDED = MainJobStatus(cause="suspended")
WAITS = MainJobStatus(cause="unschedulable")


def until_asked(script: Script) -> None:
    script.alive = lambda look: 0 if "k8_stop_task" in script.names else 1


def for_an_hour(first: MainJobStatus, then: MainJobStatus) -> "tuple[Script, list[datetime]]":
    asked = list[datetime]()

    def statuses() -> MainJobStatus:
        asked.append(info().scheduled_time)
        return first if asked[-1] - asked[0] < HOUR else then

    return Script(statuses=statuses), asked


async def test_a_main_job_that_is_suspended_for_longer_than_the_start_limit_may_still_start(play: Play) -> None:
    script, _ = for_an_hour(SUSPENDED, STARTED)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=600))).result()
    assert result["status"] == "COMPLETED"
    assert [(step.held, step.number) for step in script.inputs("hold_limits")] == [(True, 1), (False, 2)]


@pytest.mark.system
async def test_the_start_limit_counts_again_once_it_is_not_suspended_any_more(play: Play) -> None:
    script, asked = for_an_hour(SUSPENDED, WAITS)
    stopped = list[datetime]()
    script.before["add_cancellation_log_to_db"] = moments(stopped)
    until_asked(script)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=600))).result()
    assert result["reason"] == "never_started"
    went_on = next(at for at in asked if at - asked[0] >= HOUR)
    assert timedelta(seconds=580) <= stopped[0] - went_on <= timedelta(seconds=600)


async def test_a_suspended_run_outlives_its_maximum_duration_by_as_long_as_it_was_suspended(play: Play) -> None:
    """The looks are due after 1, 3, 6, 11 and 19 minutes: it is held with the second, and goes on with the fifth."""
    script = Script(suspended=lambda look: 2 <= look <= 4)
    begun, held, stopped = list[datetime](), list[datetime](), list[datetime]()
    script.before |= {
        "create_history_id": moments(begun),
        "hold_limits": moments(held),
        "add_cancellation_log_to_db": moments(stopped),
    }
    until_asked(script)
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", max_duration_seconds=600))).result()
    assert result["reason"] == "max_duration"
    suspended = held[1] - held[0]
    assert timedelta(minutes=15) < suspended < timedelta(minutes=17)
    assert stopped[0] - begun[0] == pytest.approx(timedelta(minutes=10) + suspended, abs=timedelta(seconds=5))


async def test_a_cluster_that_cannot_be_seen_changes_nothing(play: Play) -> None:
    script = Script(suspended=lambda look: look == 1, known=lambda look: look != 2)
    script.alive = lambda look: 1 if look < 3 else 0
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books"))).result()
    assert [step.held for step in script.inputs("hold_limits")] == [True, False]
    looks = [name for name in script.names if name in ("count_alive_tasks", "hold_limits")]
    assert looks == ["count_alive_tasks", "hold_limits", "count_alive_tasks", "count_alive_tasks", "hold_limits"]


@pytest.mark.system
async def test_who_continues_or_resumes_a_held_run_goes_on_with_its_clock(
    play: Play, short_histories: WorkflowEnvironment
) -> None:
    script = Script(suspended=lambda look: look <= 6, alive=lambda look: 1 if look < 9 else 0)
    async with played(short_histories, script) as stage:
        await (await stage.start(RunRequest(crawler="books", max_duration_seconds=1800))).result()
    assert [step.number for step in script.inputs("hold_limits")] == [1, 2], "it is held once, however often continued"

    def taken(step: TakeOver) -> TakenOver:
        now = info().scheduled_time
        clock = Clock(held_seconds=3600, changes=2)
        plan = RunPlan(run=again.run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=now - HOUR, clock=clock)
        return TakenOver(
            plan=plan.model_copy(update={"max_duration_seconds": 600}),
            status=RunStatus.PROCESSING,
            started_at=now - HOUR,
        )

    again = Script(taken=taken, alive=lambda look: 1 if look < 2 else 0)
    async with play(again) as stage:
        result = await (await stage.start(RunRequest(crawler="books", run_id=7))).result()
    assert result["reason"] != "max_duration"


async def test_what_cannot_be_seen_while_it_waits_to_start_releases_nothing(play: Play) -> None:
    unseen = MainJobStatus(known=False, message="the API server does not answer")
    script = Script(statuses=in_turn(SUSPENDED, unseen, SUSPENDED, STARTED))
    async with play(script) as stage:
        await (await stage.start(RunRequest(crawler="books", start_limit_seconds=20))).result()
    assert [step.held for step in script.inputs("hold_limits")] == [True, False]
    assert script.names.index("update_run_started") > script.names.index("hold_limits")


async def test_a_main_job_that_was_made_unnoticed_and_is_suspended_may_still_start(play: Play) -> None:
    """All answers of its deployment were lost."""
    script = Script(deployments=in_turn(UNAVAILABLE), statuses=in_turn(SUSPENDED, SUSPENDED, STARTED))
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=60))).result()
    assert result["status"] == "COMPLETED"


async def test_a_held_run_can_be_stopped(play: Play) -> None:
    script = Script(statuses=in_turn(SUSPENDED))
    until_asked(script)
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books", start_limit_seconds=60))
        script.before["hold_limits"] = lambda: handle.signal("stop", {"actor": "ann"})
        result = await handle.result()
    assert (result["reason"], script.names.count("hold_limits")) == ("stopped", 1)


async def test_an_execution_that_was_reset_learns_the_clock_of_the_timeline(play: Play) -> None:
    """A reset by hand brings a workflow back to a time before its limits were held."""
    script = Script(statuses=in_turn(SUSPENDED, STARTED))
    known = Clock(held_seconds=60, changes=2)
    script.hold = lambda step: known if step.number <= known.changes else None
    async with play(script) as stage:
        result = await (await stage.start(RunRequest(crawler="books", start_limit_seconds=60))).result()
    assert result["status"] == "COMPLETED"
    assert [(step.held, step.number) for step in script.inputs("hold_limits")] == [(True, 1), (True, 3), (False, 4)]
