"""Late starts on a real Temporal server: requests without a worker, and schedules after their time."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry
from temporalio.client import Schedule, ScheduleActionStartWorkflow, ScheduleCalendarSpec, ScheduleRange, ScheduleSpec
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.assembly import checks
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.schedules.commands.late_starts import LateStarts, late_starts, requests_without_run
from crawler_lifecycle.schedules.processes import LateStartMetrics
from crawler_lifecycle.temporal.engine import Engine
from tests.kit.waiting import eventually_async


@pytest.fixture
def engine(real_time: WorkflowEnvironment) -> Engine:
    """An engine for a task queue without a worker."""
    variables = {
        "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": real_time.client.namespace,
    }
    return Engine(variables, f"nobody-{uuid4()}")


async def test_an_accepted_request_without_a_worker_is_counted_after_a_minute(engine: Engine) -> None:
    client, now = await engine.client(), datetime.now(UTC)
    handle = await client.start_workflow(RUN_WORKFLOW, id=f"late-{uuid4()}", task_queue=engine.task_queue)

    async def is_counted() -> bool:
        return (await late_starts(engine, now + timedelta(minutes=2))).requests == 1

    await eventually_async(is_counted)
    named = await requests_without_run(engine, now + timedelta(minutes=2))
    assert (named.total, named.workflows) == (1, [handle.id])
    with pytest.raises(NotReady, match="1 accepted request without a run: `crawlctl status` names"):
        await checks._starts(engine, now + timedelta(minutes=2))
    assert (await requests_without_run(engine, now)).total == 0
    assert (await late_starts(engine, now)).requests == 0, "a worker may still be in time"
    await handle.terminate()


@pytest.mark.long
async def test_a_schedule_is_late_from_its_time_on_unless_paused(engine: Engine) -> None:
    client, name = await engine.client(), f"late-{uuid4()}"
    year = datetime.now(UTC).year + 3
    due = datetime(year, 1, 1, tzinfo=UTC)
    times = ScheduleCalendarSpec(year=[ScheduleRange(year)], month=[ScheduleRange(1)])
    action = ScheduleActionStartWorkflow(RUN_WORKFLOW, id=name, task_queue=engine.task_queue)
    memo = {"task_queue": engine.task_queue}
    handle = await client.create_schedule(
        name, Schedule(action=action, spec=ScheduleSpec(calendars=[times])), memo=memo
    )

    async def seconds_late() -> float:
        return (await late_starts(engine, due + timedelta(hours=1))).schedule_seconds

    async def is_late() -> bool:
        return await seconds_late() == 3600

    async def is_quiet() -> bool:
        return await seconds_late() == 0

    try:
        await eventually_async(is_late)
        with pytest.raises(NotReady, match=f"schedule {name} has not fired for 1 h after its time"):
            await checks._starts(engine, due + timedelta(hours=1))
        assert (await late_starts(engine, due - timedelta(hours=1))).schedule_seconds == 0
        await handle.pause()
        await eventually_async(is_quiet)
    finally:
        await handle.delete()


async def test_most_requests_of_an_hour_at_once_are_a_peak(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.schedules.commands.late_starts.LEAST_IN_A_PEAK", 3)
    client, now, soon = await engine.client(), datetime.now(UTC), datetime.now(UTC) + timedelta(minutes=2)
    handles = [
        await client.start_workflow(RUN_WORKFLOW, id=f"midnight-{uuid4()}", task_queue=engine.task_queue)
        for _ in range(3)
    ]

    async def is_peak() -> bool:
        return (await late_starts(engine, soon)).peak == 3

    await eventually_async(is_peak)
    with pytest.raises(NotReady, match="3 accepted requests without a run: 3 came within ten minutes: spread"):
        await checks._starts(engine, soon)
    assert (await late_starts(engine, now + timedelta(minutes=11))).peak == 0, "ten minutes later they are late"
    monkeypatch.setattr("crawler_lifecycle.schedules.commands.late_starts.PEAK", timedelta(minutes=1))
    assert (await late_starts(engine, soon)).peak == 0, "they came before"
    for handle in handles:
        await handle.terminate()


async def test_late_starts_are_logged_and_have_no_number_without_temporal(caplog: pytest.LogCaptureFixture) -> None:
    figures = [LateStarts(requests=2, schedule_seconds=700.0, schedule="nightly", peak=300)]

    async def read(_now: datetime) -> LateStarts:
        if not figures:
            raise TemporaryError("Temporal does not answer")
        return figures.pop()

    registry = CollectorRegistry()
    metrics = LateStartMetrics(read, registry)
    await metrics.refresh()
    assert registry.get_sample_value("crawler_requests_without_run") == 2
    assert registry.get_sample_value("crawler_schedule_delay_seconds") == 700
    assert registry.get_sample_value("crawler_requests_in_peak") == 300
    late, without_run = caplog.messages
    assert late.startswith("schedule nightly has not fired for 11 min")
    assert without_run.startswith("2 accepted requests without a run: 300 came within ten minutes")
    await metrics.refresh()
    assert str(registry.get_sample_value("crawler_requests_without_run")) == "nan", "old numbers would look like news"
