"""Schedules on a real Temporal server and with the real catalogue; their runs are workflows that do nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleSpec,
)
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.base.requesters import Requester, of_token
from crawler_lifecycle.database import migrate
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, TemporaryError
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.requests import RunRequest, parse
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.model.states import RunStatus, Trigger
from crawler_lifecycle.runs.ports import Claim, NewRun
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.schedules.model import (
    Occurrence,
    OccurrenceOutcome,
    Overlap,
    ScheduleRequest,
    SkipReason,
    Triggered,
)
from crawler_lifecycle.settings.installation import Installation
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, served
from tests.kit.waiting import eventually_async

QUEUE = "schedules-under-test"
PATIENCE = 60.0
A = TypeVar("A")


@workflow.defn(name=RUN_WORKFLOW, sandboxed=False)
class Run:
    """Open until it is told; a cancel ends it as well."""

    def __init__(self) -> None:
        self._over = False

    @workflow.run
    async def run(self, raw: RawValue) -> str:
        asked = raw.payload.data.decode()
        await workflow.wait_condition(lambda: self._over)
        return asked

    @workflow.signal
    def end(self) -> None:
        self._over = True


ANN, BOB = Requester("ann", door="test"), Requester("bob", door="test")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def control(real_time: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Control]:
    folder = tmp_path_factory.mktemp("schedules")
    with served(SmallCluster(), a_catalogue(folder)) as url:
        variables = {
            "CRAWLER_SCHEDULER__URL": url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "CRAWLER_WORKER__TASK_QUEUE": QUEUE,
            "TEMPORAL_ADDRESS": real_time.client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": real_time.client.namespace,
        }
        control = Control(Installation.with_variables(folder, variables))
        migrate.upgrade(control.installation.settings.database_url)
        async with Worker(await control.engine.client(), task_queue=QUEUE, workflows=[Run]):
            yield control


@pytest_asyncio.fixture(loop_scope="session")
async def schedules(control: Control) -> AsyncIterator[ScheduleCommands]:
    yield control.asked_by(ANN).schedules
    for each in await control.schedules.list():
        try:
            await control.schedules.delete(each.schedule_id)
        except NotFound:
            continue  # the list is a moment late


def asked(schedule_id: str, **rules: Any) -> ScheduleRequest:
    run = RunRequest(crawler="bookshop", arguments={"site": "x"}, requested_by="ann")
    return ScheduleRequest(schedule_id=schedule_id, run=run, **rules)


def yearly(schedule_id: str, **rules: Any) -> ScheduleRequest:
    """Never due while a test runs."""
    return asked(schedule_id, cron=["0 0 1 1 *"], **rules)


async def occurrences(schedules: ScheduleCommands, schedule_id: str) -> list[Occurrence]:
    return (await schedules.show(schedule_id, occurrences=100)).occurrences[::-1]


async def until_occurred(
    schedules: ScheduleCommands, schedule_id: str, holds: Callable[[list[Occurrence]], bool]
) -> None:
    async def look() -> bool:
        return holds(await occurrences(schedules, schedule_id))

    await eventually_async(look)


async def test_what_was_asked_is_what_temporal_has(schedules: ScheduleCommands, real_time: WorkflowEnvironment) -> None:
    made = await schedules.create(
        asked("asked", cron=["30  3 * * mon", "@daily"], time_zone="Europe/Berlin", jitter_seconds=90,
              overlap=Overlap.REPLACE, paused=True),
    )  # fmt: skip
    assert (made.crawler, made.cron, made.time_zone) == ("bookshop", ["30 3 * * mon", "@daily"], "Europe/Berlin")
    assert (made.jitter_seconds, made.overlap, made.missed_window_seconds) == (90, Overlap.REPLACE, 86400)
    assert made.run is not None
    assert (made.run.trigger, made.run.arguments) == (Trigger.SCHEDULED, {"site": "x"})
    assert (made.paused, made.next_at, made.pauses[0].actor) == (True, [], "ann")

    made = await schedules.create(asked("every", every_seconds=7200, offset_seconds=600))
    assert (made.every_seconds, made.offset_seconds, made.missed_window_seconds) == (7200, 600, 3600)
    assert {moment.timestamp() % 7200 for moment in made.next_at} == {600}

    async def both() -> bool:
        return {"asked", "every"} <= {each.schedule_id for each in await schedules.list()}

    await eventually_async(both)
    listed = {each.schedule_id: each for each in await schedules.list()}
    assert (listed["asked"].crawler, listed["asked"].paused) == ("bookshop", True)
    assert listed["asked"].cron == ["30 3 * * mon", "@daily"]
    assert listed["every"].next_at


async def test_cron_means_the_same_to_us_and_to_temporal(schedules: ScheduleCommands) -> None:
    """Where both the day of the month and the day of the week are given, both have to fit."""
    made = await schedules.create(asked("friday", cron=["0 12 13 * fri"], time_zone="Europe/Berlin"))
    assert all((moment.day, moment.weekday()) == (13, 4) for moment in made.next_at)
    made = await schedules.create(asked("leap", cron=["0 0 29 2 *"]))
    assert [moment.year for moment in made.next_at[:2]] == [2028, 2032]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"time_zone": "Mars/Base"}, "time_zone: 'Mars/Base' is unknown"),
        ({"time_zone": "../etc/passwd"}, "time_zone: "),
        ({"run": RunRequest(crawler="no such crawler")}, "crawler: "),
    ],
)
async def test_bad_input_makes_nothing(schedules: ScheduleCommands, change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput) as refused:
        await schedules.create(yearly("bad").model_copy(update=change))
    assert named in refused.value.message
    with pytest.raises(NotFound):
        await schedules.show("bad")


async def test_an_id_that_exists_is_left_as_it_is(schedules: ScheduleCommands) -> None:
    await schedules.create(yearly("taken", jitter_seconds=5))
    with pytest.raises(Conflict, match="there is a schedule taken already"):
        await schedules.create(yearly("taken", jitter_seconds=9))
    assert (await schedules.show("taken")).jitter_seconds == 5


@pytest.mark.long
async def test_a_schedule_goes_by_other_rules(schedules: ScheduleCommands) -> None:
    made = await schedules.create(asked("changed", every_seconds=1, paused=True))
    await until_occurred(schedules, "changed", lambda found: len(found) >= 2)
    run = RunRequest(crawler="bookshop", arguments={"site": "y"})
    rules = yearly("changed", overlap=Overlap.QUEUE).model_copy(update={"run": run})
    for _ in range(2):
        changed = await schedules.replace(rules)
        assert (changed.every_seconds, changed.cron, changed.overlap) == (None, ["0 0 1 1 *"], Overlap.QUEUE)
        assert changed.run is not None
        assert changed.run.arguments == {"site": "y"}
    assert (changed.paused, changed.pauses, changed.created_at) == (True, made.pauses, made.created_at)
    assert changed.occurrences == [], "the list begins anew with the other rules"
    with pytest.raises(BadInput, match="starts bookshop"):
        await schedules.replace(rules.model_copy(update={"run": RunRequest(crawler="..")}))
    with pytest.raises(BadInput, match="'Mars/Base' is unknown"):
        await schedules.replace(rules.model_copy(update={"time_zone": "Mars/Base"}))
    with pytest.raises(NotFound, match="there is no schedule"):
        await schedules.replace(yearly("nowhere"))
    assert (await schedules.show("changed")).cron == ["0 0 1 1 *"]


@pytest.mark.parametrize(
    "rules",
    [
        {"cron": ["30  3 * * mon", "@daily"], "time_zone": "Europe/Berlin", "jitter_seconds": 90},
        {"every_seconds": 7200, "offset_seconds": 600, "overlap": Overlap.QUEUE},
        {"every_seconds": 60, "missed_window_seconds": 99},
    ],
)
async def test_the_same_rules_change_nothing(schedules: ScheduleCommands, rules: dict[str, Any]) -> None:
    """A client that puts them again and again had the list of occurrences begin anew each time."""
    await schedules.create(asked("same", **rules))
    handle, _ = await schedules._our_schedule("same")
    await schedules.replace(asked("same", **rules))
    assert (await handle.describe()).info.last_updated_at is None
    others: list[dict[str, Any]] = [{"jitter_seconds": 7}, {"overlap": Overlap.ALLOW}, {"missed_window_seconds": 100}]
    for other in others:
        rules = rules | other
        before = (await handle.describe()).info.last_updated_at
        await schedules.replace(asked("same", **rules))
        assert (await handle.describe()).info.last_updated_at != before
    run = RunRequest(crawler="bookshop", arguments={"site": "y"}, requested_by="ann")
    changed = await schedules.replace(asked("same", **rules).model_copy(update={"run": run}))
    assert changed.run is not None
    assert changed.run.arguments == {"site": "y"}
    await schedules.delete("same")


async def test_other_rules_undo_no_pause_that_was_made_meanwhile(
    schedules: ScheduleCommands, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.create(yearly("overtaken"))
    service = (await control.engine.client()).workflow_service
    update, overtaken = service.update_schedule, 0

    async def after_a_pause_or_resume(*arguments: Any, **options: Any) -> Any:
        nonlocal overtaken
        overtaken += 1
        if overtaken <= 2:
            verb = schedules.pause if overtaken == 1 else schedules.resume
            await verb("overtaken", reason=f"number {overtaken}")
        return await update(*arguments, **options)

    monkeypatch.setattr(service, "update_schedule", after_a_pause_or_resume)
    changed = await schedules.replace(yearly("overtaken", jitter_seconds=9))
    assert (changed.jitter_seconds, changed.paused, overtaken) == (9, False, 3)
    assert [(each.reason, each.until is not None) for each in changed.pauses] == [("number 1", True)]
    overtaken = 0
    monkeypatch.setattr("crawler_lifecycle.schedules.commands.schedule_commands.TRIES", 1)
    with pytest.raises(TemporaryError, match="changed by other clients"):
        await schedules.replace(yearly("overtaken", jitter_seconds=10))
    kept = await schedules.show("overtaken")
    assert (kept.jitter_seconds, kept.paused, kept.pauses[-1].reason) == (9, True, "number 1")


async def test_other_rules_are_not_lost_to_those_of_somebody_else(
    schedules: ScheduleCommands, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.create(yearly("contested"))
    service = (await control.engine.client()).workflow_service
    update, others = service.update_schedule, iter([yearly("contested", jitter_seconds=5)])

    async def after_somebody_else(*arguments: Any, **options: Any) -> Any:
        for request in others:
            await schedules.replace(request)
        return await update(*arguments, **options)

    monkeypatch.setattr(service, "update_schedule", after_somebody_else)
    assert (await schedules.replace(yearly("contested", jitter_seconds=9))).jitter_seconds == 9
    assert (await schedules.show("contested")).jitter_seconds == 9


async def test_what_is_not_there_or_not_ours_is_not_found(
    schedules: ScheduleCommands, real_time: WorkflowEnvironment
) -> None:
    action = ScheduleActionStartWorkflow("SomethingElse", id="else", task_queue=QUEUE)
    spec = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(days=30))])
    foreign = await real_time.client.create_schedule("foreign", Schedule(action=action, spec=spec))
    now = datetime.now(UTC)
    for schedule_id in ("foreign", "nowhere", "", " "):
        for verb in (schedules.show, schedules.pause, schedules.resume, schedules.trigger, schedules.delete):
            with pytest.raises(NotFound, match="there is no schedule"):
                await verb(schedule_id)
        with pytest.raises(NotFound):
            await schedules.backfill(schedule_id, now - timedelta(days=1), now)
    assert "foreign" not in {each.schedule_id for each in await schedules.list()}
    await foreign.delete()


async def test_each_occurrence_is_a_workflow_of_its_own_or_says_why_not(
    schedules: ScheduleCommands, control: Control, real_time: WorkflowEnvironment
) -> None:
    """Every second: one starts, others find it open, others find the schedule paused, and it goes on."""
    await schedules.create(asked("tick", every_seconds=1))
    await until_occurred(schedules, "tick", lambda found: any(each.reason is SkipReason.OVERLAP for each in found))
    paused = await control.asked_by(BOB).schedules.pause("tick", reason="look: here")
    again = await schedules.pause("tick")
    assert again.pauses == paused.pauses, "it was paused already"
    open_workflow = real_time.client.get_workflow_handle((await schedules.show("tick")).open_workflows[0])
    await open_workflow.signal(Run.end)
    request = parse(RunRequest, await open_workflow.result())
    assert (request.trigger, request.arguments, request.requested_by) == (Trigger.SCHEDULED, {"site": "x"}, "ann")

    await until_occurred(schedules, "tick", lambda found: any(each.reason is SkipReason.PAUSED for each in found))
    resumed = await schedules.resume("tick")
    assert resumed.pauses[0].until is not None
    await until_occurred(
        schedules, "tick", lambda found: sum(each.outcome is OccurrenceOutcome.STARTED for each in found) == 2
    )
    await schedules.pause("tick")
    details = await schedules.show("tick", occurrences=100)
    found = details.occurrences[::-1]
    started = [each for each in found if each.outcome is OccurrenceOutcome.STARTED]
    assert len({each.workflow_id for each in started}) == 2
    assert all(each.workflow_id == f"crawl-tick-{each.at:%Y-%m-%dT%H:%M:%SZ}" for each in started)
    overlapped = [each for each in found if each.reason is SkipReason.OVERLAP]
    assert str(started[0].workflow_id) in overlapped[0].detail
    assert {each.detail for each in found if each.reason is SkipReason.PAUSED} >= {"paused by bob: look: here"}
    assert {each.outcome for each in found} <= {
        OccurrenceOutcome.STARTED,
        OccurrenceOutcome.SKIPPED,
        OccurrenceOutcome.DUE,
    }
    assert details.counts.started == 2
    assert details.counts.skipped_overlap == len(overlapped)
    assert [each.at for each in found] == sorted({each.at for each in found})
    assert (await schedules.show("tick", occurrences=2)).occurrences == details.occurrences[:2]


@pytest.mark.long
async def test_an_occurrence_says_why_its_run_failed(schedules: ScheduleCommands, control: Control) -> None:
    await schedules.create(asked("failing", every_seconds=1))
    await until_occurred(
        schedules, "failing", lambda past: any(item.outcome is OccurrenceOutcome.STARTED for item in past)
    )
    await schedules.pause("failing")
    workflow_id = (await schedules.show("failing")).open_workflows[0]
    client = await control.engine.client()
    execution = (await client.get_workflow_handle(workflow_id).describe()).run_id
    crawler = Crawler(name="bookshop")
    runs = control.parts.store.runs
    record = await asyncio.to_thread(
        runs.create, NewRun(RunRequest(crawler=crawler.name), crawler, 1, workflow_id, execution)
    )
    run = RunRef(run_id=record.run_id, run_uid=record.run_uid, epoch=record.epoch)
    claim = control.parts.store.claims.claim_main(run, "a-worker", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    control.parts.store.claims.failed(claim, "no_such_image", "there is no image", refused=True)
    runs.close(run, RunStatus.FAILED, "main_job_failed")
    (started,) = (item for item in await occurrences(schedules, "failing") if item.workflow_id == workflow_id)
    assert (started.run_id, started.run_status) == (record.run_id, RunStatus.FAILED)
    assert "task 0 (the main job) FAILED (no_such_image): there is no image" in started.detail


@pytest.mark.long
async def test_occurrences_come_in_pages_back_to_the_first(schedules: ScheduleCommands) -> None:
    """At most 500 back from now could be seen: a schedule of a minute hid whatever was skipped nine hours ago."""
    await schedules.create(asked("paged", every_seconds=1))
    await until_occurred(
        schedules, "paged", lambda found: any(each.outcome is OccurrenceOutcome.SKIPPED for each in found)
    )
    await schedules.pause("paged")
    newest = (await schedules.show("paged", occurrences=1)).occurrences[0].at
    seen, before = list[Occurrence](), newest
    while page := (await schedules.show("paged", occurrences=2, before=before)).occurrences:
        assert [each.at for each in page] == sorted((each.at for each in page), reverse=True)
        assert page[0].at < before
        seen, before = [*seen, *page], page[-1].at
    whole = {each.at: each for each in (await schedules.show("paged", occurrences=500)).occurrences}
    assert [each.at for each in seen] == [at for at in whole if at < newest]
    assert all(
        OccurrenceOutcome.DUE in (each.outcome, whole[each.at].outcome) or each == whole[each.at] for each in seen
    )


async def test_no_occurrences_are_none(schedules: ScheduleCommands) -> None:
    """It was all of the last quarter of an hour."""
    await schedules.create(asked("none", every_seconds=1))
    await until_occurred(schedules, "none", bool)
    await schedules.pause("none")
    assert (await schedules.show("none", occurrences=0)).occurrences == []


async def test_a_trigger_that_is_made_is_no_error(
    schedules: ScheduleCommands, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was, if nothing was known of it in time or Temporal went away: whoever asked again got a second run."""
    await schedules.create(yearly("asked"))
    service = (await control.engine.client()).workflow_service
    patch, describe = service.patch_schedule, service.describe_schedule

    async def fails(*_: Any, **__: Any) -> Any:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    async def then_goes_away(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(service, "describe_schedule", fails)
        return await patch(*arguments, **options)

    monkeypatch.setattr(service, "patch_schedule", then_goes_away)
    assert await schedules.trigger("asked") == Triggered(schedule_id="asked", outcome=OccurrenceOutcome.ASKED)
    monkeypatch.setattr(service, "describe_schedule", describe)
    monkeypatch.setattr(service, "patch_schedule", fails)
    with pytest.raises(TemporaryError):
        await schedules.trigger("asked")
    monkeypatch.setattr(service, "patch_schedule", patch)
    monkeypatch.setattr("crawler_lifecycle.schedules.commands.schedule_commands.TRIGGER_PATIENCE", 0)
    assert (await schedules.trigger("asked")).outcome is OccurrenceOutcome.ASKED


async def test_triggers_keep_to_the_overlap_policy(schedules: ScheduleCommands, real_time: WorkflowEnvironment) -> None:
    async def twice(overlap: Overlap) -> tuple[OccurrenceOutcome, SkipReason | None]:
        schedule_id = f"trigger-{overlap}"
        await schedules.create(yearly(schedule_id, overlap=overlap, paused=overlap is Overlap.SKIP))
        first = await schedules.trigger(schedule_id)
        assert first.outcome is OccurrenceOutcome.STARTED, "also while it is paused"
        await asyncio.sleep(1.1)  # the workflow ids end with the second
        second = await schedules.trigger(schedule_id)
        assert first.workflow_id != second.workflow_id
        return second.outcome, second.reason

    outcomes = dict(zip(Overlap, await asyncio.gather(*map(twice, Overlap)), strict=True))
    assert outcomes.pop(Overlap.REPLACE)[0] in (OccurrenceOutcome.QUEUED, OccurrenceOutcome.STARTED)
    assert outcomes == {
        Overlap.SKIP: (OccurrenceOutcome.SKIPPED, SkipReason.OVERLAP),
        Overlap.QUEUE: (OccurrenceOutcome.QUEUED, None),
        Overlap.ALLOW: (OccurrenceOutcome.STARTED, None),
    }

    async def replaced() -> str | None:
        details = await schedules.show("trigger-replace")
        return details.open_workflows[0] if details.counts.started == 2 and details.open_workflows else None

    assert await eventually_async(replaced)
    query = 'TemporalScheduledById = "trigger-replace" AND ExecutionStatus = "Canceled"'

    async def cancelled() -> int:
        return (await real_time.client.count_workflows(query)).count

    assert await eventually_async(cancelled) == 1, "cancel means stop, terminate would leave its jobs"


@pytest.mark.long
async def test_backfill_starts_what_was_skipped(schedules: ScheduleCommands, real_time: WorkflowEnvironment) -> None:
    await schedules.create(asked("late", every_seconds=1, paused=True))
    made = (await schedules.show("late")).created_at
    now = datetime.now(UTC)
    for since, until_, field in (
        (made, now + timedelta(hours=1), "until"),
        (now, made - timedelta(seconds=5), "since"),
        (made - timedelta(hours=1), now, "since"),
    ):
        with pytest.raises(BadInput) as refused:
            await schedules.backfill("late", since, until_)
        assert refused.value.field == field
    assert (await schedules.show("late")).counts.started == 0

    await until_occurred(schedules, "late", lambda found: len(found) >= 2)
    due = [each.at for each in await occurrences(schedules, "late")]
    filled = await schedules.backfill("late", due[0], due[1], at_once=True)
    assert filled.occurrences == due[:2]
    await until_occurred(
        schedules, "late", lambda found: [each.outcome for each in found[:2]] == [OccurrenceOutcome.STARTED] * 2
    )
    assert (await schedules.show("late")).counts.started == 2


async def test_a_deletion_whose_answer_is_lost_stays_recorded(
    schedules: ScheduleCommands, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedules.create(yearly("brief"))
    delete = ScheduleHandle.delete

    async def repeated(handle: ScheduleHandle, **options: Any) -> None:
        await delete(handle, **options)
        await delete(handle, **options)

    monkeypatch.setattr(ScheduleHandle, "delete", repeated)
    with pytest.raises(NotFound):
        await schedules.delete("brief")
    lines = control.context.store.schedule_log.latest("brief")
    assert {line.command for line in lines} == {"create", "delete"}
    with pytest.raises(NotFound):
        await schedules.delete("brief")
    assert len(control.context.store.schedule_log.latest("brief")) == 2, "nothing was there to delete"


async def test_a_create_is_recorded_before_it_acts_and_forgotten_if_it_is_refused(
    schedules: ScheduleCommands, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that died after the creation left a schedule without a record of its creator."""

    async def dies(*_: object, **__: object) -> None:
        raise RuntimeError("the process dies")

    def recorded(schedule_id: str) -> list[str]:
        return [line.command for line in control.context.store.schedule_log.latest(schedule_id)]

    with monkeypatch.context() as patched:
        patched.setattr(Client, "create_schedule", dies)
        with pytest.raises(RuntimeError):
            await schedules.create(yearly("doomed"))
    assert recorded("doomed") == ["create"]
    await schedules.create(yearly("claimed"))
    with pytest.raises(Conflict):
        await schedules.create(yearly("claimed"))
    assert recorded("claimed") == ["create"]
    with pytest.raises(BadInput):
        await schedules.create(yearly("lost", time_zone="Europe/Atlantis"))
    assert recorded("lost") == []


async def test_deleted_is_gone_and_its_runs_go_on(
    schedules: ScheduleCommands, control: Control, real_time: WorkflowEnvironment
) -> None:
    await schedules.create(yearly("gone"))
    triggered = await schedules.trigger("gone")
    await control.asked_by(of_token("shop", "bob", "api")).schedules.delete("gone")
    deleted, *earlier = control.context.store.schedule_log.latest("gone")
    assert (deleted.command, deleted.actor, deleted.door) == ("delete", "bob (token shop)", "api")
    assert [(line.command, line.actor) for line in earlier] == [("trigger", "ann"), ("create", "ann")]
    with pytest.raises(LifecycleError, match="there is no schedule 'gone'"):
        await schedules.show("gone")
    left = real_time.client.get_workflow_handle(str(triggered.workflow_id))
    await left.signal(Run.end)
    assert await left.result()
