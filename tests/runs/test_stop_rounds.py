from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import Intent, RunStatus, Trigger
from crawler_lifecycle.runs.model import TakenOver, TakeOver
from tests.kit.clusters.clusters import LocalBench
from tests.kit.temporal.activity_events import times_of
from tests.kit.temporal.plays import Play
from tests.kit.temporal.script import Script
from tests.runs.stops import until_asked, until_forced

pytestmark = pytest.mark.regression(
    "A stop that waits woke itself, missed a force that only the database knew, and forgot why the run had ended"
)


@pytest.mark.long
def test_asking_a_job_again_is_no_change(local: LocalBench) -> None:
    """The watcher took it for one and nudged the workflow, which asked again: 1,340 history events in 5 seconds."""
    request = local.request('trap "" TERM; echo on > on; while :; do sleep 0.1; done')
    local.cluster.deploy(request)
    local.until_file(request, "on")
    local.cluster.stop(request.run_uid, [(0, 1)])
    changes = local.cluster.changes()
    while next(changes):
        pass  # until all that has changed so far is told
    for _ in range(3):
        local.cluster.stop(request.run_uid, [(0, 1)])
    assert next(changes) == set()


@pytest.mark.long
async def test_nudges_do_not_make_a_stop_ask_all_the_time(play: Play) -> None:
    script = Script(alive=lambda look: 1 if look < 5 else 0)

    async def nudged() -> None:
        await handle.signal("nudge", script.looks)

    script.before["count_alive_tasks"] = nudged
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books"), start_signal="stop")
        await handle.result()
        history = await handle.fetch_history()
    times = times_of(history.events, "get_active_running_tasks")
    assert min(later - earlier for earlier, later in pairwise(times)) >= timedelta(seconds=1)


async def test_a_force_that_only_the_database_knows_does_not_wait_for_the_grace_period(play: Play) -> None:
    script = Script(intent=lambda look: Intent.FORCE if look > 1 else Intent.STOP)
    script.alive = until_forced(script)
    async with play(script) as stage:
        handle = await stage.start(RunRequest(crawler="books", grace_seconds=3600), start_signal="stop")
        await handle.result()
    assert script.looks <= 3
    assert len(script.inputs("add_cancellation_log_to_db")) == 1


def resumed_late(gave_up: str | None) -> Script:
    script = Script()

    def taken(step: TakeOver) -> TakenOver:
        begun = datetime.now(UTC) - timedelta(hours=1)
        plan = RunPlan(
            run=script.run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=begun, max_duration_seconds=60
        )
        return TakenOver(plan=plan, status=RunStatus.STOPPING, intent=Intent.STOP, started_at=begun, gave_up=gave_up)

    script.taken = taken
    script.alive = until_asked(script)
    return script


async def test_a_stop_that_is_resumed_after_the_maximum_duration_is_still_that_stop(play: Play) -> None:
    script = resumed_late(None)
    async with play(script) as stage:
        outcome = await (await stage.start(RunRequest(crawler="books", run_id=7))).result()
    assert outcome["reason"] == "stopped"
    assert "add_cancellation_log_to_db" not in script.names


async def test_a_limit_is_still_the_reason_after_a_resume(play: Play) -> None:
    script = resumed_late("never_started")
    async with play(script) as stage:
        outcome = await (await stage.start(RunRequest(crawler="books", run_id=7))).result()
    assert outcome["reason"] == "never_started"
    assert "signal_pusher_stopped" not in script.names
