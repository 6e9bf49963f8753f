"""A run is stopped, cancelled, terminated, resumed and reopened, with real jobs: it ends as they did."""

import asyncio
import os
import zipfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import psutil
import pytest
import pytest_asyncio
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError

from crawler_lifecycle.base.requesters import Requester
from crawler_lifecycle.errors import Conflict, LifecycleError
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.states import Intent, RunStatus, StopPhase, TaskStatus, Trigger
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Site, held
from tests.process.stops import (
    another_control,
    answer,
    assert_stopped,
    command,
    end_runs,
    events,
    frozen,
    frozen_without_lock,
    missing,
    notices,
    temporal,
    terminate,
    until_closed,
    until_event,
)

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(240)]
BY_ANN = StopRequest(actor="ann", reason="wrong site", door="test")
Runs = dict[str, Started]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(stack: Site) -> AsyncIterator[Runs]:
    """Asked for all at once, because every run takes some seconds until it is past its deployment."""
    started = await _started(
        stack,
        polite=stack.start("polite", tasks=3),
        forced=stack.start("stubborn"),
        graceful=stack.start("stubborn", grace_seconds=2),
        parent=stack.start("parent"),
        obliging=stack.start("obliging"),
        racing=stack.start(tasks=4),
        cancelled=stack.start("polite"),
        unwatched=stack.start(tasks=2),
    )
    for run in started.values():
        await stack.until_running(run, len(stack.details(run).tasks))
    yield started
    await end_runs(stack, *started.values())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def later(stack: Site) -> AsyncIterator[Runs]:
    """There is room for them once the first tests are over; the next ones go on meanwhile."""
    started = await _started(
        stack,
        unworked=stack.start("polite", tasks=2),
        untold=stack.start("polite", tasks=2),
        stopping=stack.start("stubborn", grace_seconds=600),
        owned=stack.start(),
        going_on=stack.start(),
    )
    yield started
    await end_runs(stack, *started.values())


async def _started(stack: Site, **asked: Coroutine[Any, Any, Started]) -> Runs:
    return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


# Stops


async def test_jobs_that_do_not_listen_are_forced_or_given_their_grace(stack: Site, runs: Runs) -> None:
    forced, graceful = runs["forced"], runs["graceful"]
    await stack.control.runs.stop(graceful.run_id, BY_ANN)
    status, told = await command(stack, "stop", str(forced.run_id), "--force", "--wait")
    assert status == 0, told
    assert "jobs killed" in told
    details = await assert_stopped(stack, forced, "stopped_forced")
    assert {task.exit_code for task in details.tasks} == {137}

    details = await assert_stopped(stack, graceful, "stopped_forced")
    assert (stack.truth / f"{graceful.run_uid}.0.asked").exists(), "it was asked before it was forced"
    asked, by_grace = (line for line in details.log if "stop" in line.event)
    assert (asked.actor, by_grace.actor, by_grace.door) == ("ann", "crawler-lifecycle", "grace_period")
    assert (by_grace.at - asked.at).total_seconds() >= 2


async def test_what_a_job_left_behind_is_ended_with_it(stack: Site, runs: Runs) -> None:
    run = runs["parent"]
    child = psutil.Process(int((stack.truth / f"{run.run_uid}.child").read_text()))
    assert os.getsid(child.pid) == child.pid, "it is in a session of its own"
    await stack.control.runs.stop(run.run_id, BY_ANN)
    await assert_stopped(stack, run)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


async def test_jobs_that_end_at_the_same_moment(stack: Site, runs: Runs, later: Runs) -> None:
    """One ends because it was asked to, and well; of four others each ends by itself or is stopped, as it comes."""
    obliging, racing = runs["obliging"], runs["racing"]
    stopping = asyncio.gather(*(stack.control.runs.stop(run.run_id, BY_ANN) for run in (obliging, racing)))
    for task in range(3):
        stack.release(racing, task)
        await asyncio.sleep(0)
    await stopping
    in_order = await assert_stopped(stack, obliging)
    assert (in_order.run.status, in_order.run.reason) == (RunStatus.FAILED, "stopped")
    assert (in_order.tasks[0].status, in_order.tasks[0].exit_code) == (TaskStatus.STOPPED, 0)
    details = await assert_stopped(stack, racing)
    assert details.tasks[3].status is TaskStatus.STOPPED
    with pytest.raises(Conflict, match="there is nothing to stop"):
        await stack.control.runs.stop(obliging.run_id, BY_ANN)


async def test_a_stop_while_deployments_are_under_way(stack: Site) -> None:
    """The requests are out and not answered: nothing is proved before it is known what becomes of them."""
    with ExitStack() as nothing_dispatched:
        nothing_dispatched.enter_context(frozen_without_lock(stack, "dispatcher"))
        # a lost answer holds its claim for a minute: a shorter grace period would turn the stop into a force
        of_children = await stack.start("polite", tasks=3, grace_seconds=600)
        with held(stack.placing_lock):
            of_main = await stack.start("polite", grace_seconds=600)
            await stack.under_way(of_main.workflow_id, "run_onetime_crawler")
            status, told = await command(stack, "stop", str(of_main.run_id))
            assert status == 0, told
            assert stack.details(of_main).run.status is RunStatus.STOPPING
        await assert_stopped(stack, of_main)

        await eventually(lambda: stack.details(of_children).run.status is RunStatus.PROCESSING, patience=PATIENCE)
        await eventually(lambda: stack.jobs(of_children), patience=PATIENCE)
        with frozen(stack.pid("scheduler")):
            nothing_dispatched.close()
            await eventually(lambda: stack.statuses(of_children)[1:] == [TaskStatus.DEPLOYING] * 2, patience=PATIENCE)
            await stack.control.runs.stop(of_children.run_id, BY_ANN)
            await eventually(lambda: stack.statuses(of_children)[0] is TaskStatus.STOPPED, patience=PATIENCE)
            details = stack.details(of_children)
            assert details.run.status is RunStatus.STOPPING
            assert StopPhase.PROVED not in events(details)
    details = await assert_stopped(stack, of_children)
    assert [task.attempt for task in details.tasks] == [1] * 3


async def test_a_stop_while_the_worker_is_dead_is_carried_out_later(stack: Site, later: Runs) -> None:
    run = later["unworked"]
    await stack.until_running(run, 2)
    async with missing(stack, "lifecycle"):
        status, told = await command(stack, "stop", str(run.run_id))
        assert status == 0, told
        recorded = stack.details(run)
        assert (recorded.run.status, recorded.run.intent) == (RunStatus.STOPPING, Intent.STOP)
        assert recorded.log[-1].event == "stop"
        assert len(stack.processes(run)) >= 2, "nobody has told the jobs"
    details = await assert_stopped(stack, run)
    assert events(details).count("stop") == 1


async def test_a_stop_while_temporal_is_down_is_read_at_the_next_look(stack: Site, later: Runs) -> None:
    run = later["untold"]
    await stack.until_running(run, 2)
    async with missing(stack, "temporal"):
        status, told = await command(stack, "stop", str(run.run_id), "--actor", "ann")
        assert status == 0, told
        assert (
            f"Stop requested for run {run.run_id}: its workflow will read the request at its next look "
            "(later: Temporal " in told
        )
        assert stack.details(run).run.intent is Intent.STOP
    stack.release(run, 1)  # which the watcher sees
    details = await assert_stopped(stack, run)
    assert [(line.actor, line.door) for line in details.log if line.event == "stop"] == [
        ("ann (token embedded)", "api")
    ]
    assert [task.status for task in details.tasks] == [TaskStatus.STOPPED, TaskStatus.SUCCEEDED]


# Limits


async def test_the_time_of_a_run_is_up(stack: Site) -> None:
    """In its deployment, and when it is watched."""
    words = ("run", "polite", "--tasks", "2", "--max-duration", "12s", "--detach", "--json")
    short, (status, told) = await asyncio.gather(stack.start("polite", max_duration_seconds=3), command(stack, *words))
    assert status == 0, told
    watched = Started.model_validate_json(told)
    stack.asked.append(watched.run_id)
    await stack.until_running(watched, 2)
    for run in (short, watched):
        details = await assert_stopped(stack, run, "max_duration")
        by_the_cluster = {"deadline_exceeded"}  # which on a busy machine is the first
        assert {task.reason for task in details.tasks if task.status is not TaskStatus.STOPPED} <= by_the_cluster


async def test_the_time_of_a_run_is_up_while_nobody_supervises_it(stack: Site) -> None:
    """Its job has a deadline of its own, and has ended by it when the worker is back."""
    run = await stack.start("polite", max_duration_seconds=10)
    await stack.until_running(run, 1)
    async with missing(stack, "lifecycle"):
        await eventually(lambda: not stack.processes(run), patience=PATIENCE)
    details = await assert_stopped(stack, run, "max_duration")
    assert [(task.status, task.reason) for task in details.tasks] == [(TaskStatus.FAILED, "deadline_exceeded")]


async def test_a_cancel_is_a_stop(stack: Site, runs: Runs) -> None:
    run = runs["cancelled"]
    await temporal(stack, "cancel", "--workflow-id", run.workflow_id)
    details = await assert_stopped(stack, run)
    assert [(line.actor, line.door) for line in details.log if line.event == "stop"] == [("Temporal", "cancel")]
    assert await until_closed(stack, run.workflow_id) is WorkflowExecutionStatus.CANCELED


# Resuming


async def test_terminated_and_resumed_in_every_stage(stack: Site, runs: Runs, later: Runs) -> None:
    """In the deployment call, in reconciliation while its jobs go on and end unwatched, and in a stop."""
    unwatched, stopping = runs["unwatched"], later["stopping"]
    await stack.until_running(stopping, 1)
    await stack.control.runs.stop(stopping.run_id, BY_ANN)
    await until_event(stack, stopping, StopPhase.JOBS_ASKED)
    with held(stack.placing_lock):
        deploying = await stack.start()
        await stack.under_way(deploying.workflow_id, "run_onetime_crawler")
        await asyncio.gather(*(terminate(stack, run) for run in (unwatched, stopping, deploying)))
        status, told = await command(stack, "resume", str(deploying.run_id))
        assert status == 0, told
        assert f"continues under workflow {deploying.workflow_id}, epoch 2: INITIALIZING" in told
    for task in range(2):
        stack.release(unwatched, task, codes={1: 3})
    await eventually(lambda: len(list(stack.job_folder(unwatched, 0).parent.glob("*/exit.json"))) == 2, patience=20)
    assert stack.details(unwatched).run.status is RunStatus.PROCESSING, "nobody has looked"

    first, second = (another_control(stack) for _ in range(2))
    both = await asyncio.gather(first.runs.resume(unwatched.run_id), second.runs.resume(unwatched.run_id))
    assert any(resumed.started for resumed in both)
    assert {(resumed.run.run_id, resumed.run.workflow_id) for resumed in both} == {
        (unwatched.run_id, unwatched.workflow_id)
    }
    for resumed in both:
        # who finds the workflow open already answers what it read before, when that had not taken over yet
        assert resumed.run.epoch == 2 or (resumed.run.epoch == 1 and not resumed.started)
    details = await stack.until_over(unwatched)
    assert (details.run.epoch, events(details).count("resumed")) == (2, 1), "two at once are one"
    assert [(task.status, task.exit_code) for task in details.tasks] == [
        (TaskStatus.SUCCEEDED, 0),
        (TaskStatus.FAILED, 3),
    ]

    assert (await stack.control.runs.resume(stopping.run_id)).run.status is RunStatus.STOPPING
    await stack.control.runs.stop(stopping.run_id, StopRequest(force=True, actor="bob"))
    details = await assert_stopped(stack, stopping, "stopped_forced")
    assert events(details).count("resumed") == 1

    stack.release(deploying, 0)
    details = await stack.assert_true(deploying, {0: 0})
    assert [job.began for job in stack.jobs(deploying).values()] == [1], "its job was found, not made again"


async def test_terminated_and_resumed_while_its_end_is_exported(stack: Site) -> None:
    run = await stack.start()
    await stack.until_running(run, 1)
    with held(stack.state / "exports" / "events.jsonl"):
        stack.release(run, 0)
        await stack.under_way(run.workflow_id, "initiate_export_signal")
        assert stack.details(run).run.status is RunStatus.COMPLETED
        await terminate(stack, run)
        status, told = await command(stack, "resume", str(run.run_id))
        assert status == 0, told
    await stack.assert_true(run, {0: 0})


async def test_whose_run_it_is(stack: Site, later: Runs) -> None:
    """An open run is left to its workflow; under another workflow id it is its own that goes on."""
    run = later["owned"]
    await stack.until_running(run, 1)
    status, told = await command(stack, "resume", str(run.run_id))
    assert (status, f"is under way already, by workflow {run.workflow_id}, epoch 1" in told) == (0, True), told

    async def by_hand() -> None:
        request = RunRequest(crawler="gated", run_id=run.run_id)
        handle = await stack.control.engine.start(RUN_WORKFLOW, request, f"by-hand-{uuid4()}", "by hand")
        handed_over = {"run_id": run.run_id, "workflow_id": run.workflow_id}
        assert await stack.control.engine.result(handle) == handed_over

    await by_hand()
    assert stack.details(run).run.epoch == 1
    await terminate(stack, run)
    await by_hand()
    await eventually(lambda: stack.details(run).run.epoch == 2, patience=20)
    stack.release(run, 0)
    await stack.assert_true(run, {0: 0})
    assert await until_closed(stack, run.workflow_id) is WorkflowExecutionStatus.COMPLETED


async def test_a_stopped_run_is_reopened_to_its_completion(stack: Site, runs: Runs) -> None:
    run = runs["polite"]
    await stack.control.runs.stop(run.run_id, BY_ANN)
    before = await assert_stopped(stack, run)
    assert await until_closed(stack, run.workflow_id) is WorkflowExecutionStatus.COMPLETED
    status, told = await command(stack, "resume", str(run.run_id), "--reopen")
    assert status == 0, told
    stack.release(run, 0, 1, 2)

    def over_again() -> bool:
        return stack.details(run).run.end_number == 2

    await eventually(over_again, patience=PATIENCE)
    details = await stack.until_over(run)
    await eventually(lambda: len(stack.details(run).exports) == 4, patience=20)
    details = await stack.until_over(run)
    assert (details.run.status, details.run.reason) == (RunStatus.COMPLETED, "all_succeeded")
    assert [(task.attempt, task.exit_code) for task in details.tasks] == [(2, 0)] * 3
    assert details.log[: len(before.log)] == before.log, "its earlier end stays in its log"
    assert {key: job.ends for key, job in stack.jobs(run).items()} == {
        (task, attempt): (143 if attempt == 1 else 0,) for task in range(3) for attempt in (1, 2)
    }
    told_of = [(line["kind"], line["notice_id"]) for line in notices(stack, run) if line["kind"] != "progress"]
    assert [kind for kind, _ in told_of] == ["started", "stopped", "started", "finished"]
    assert len({notice_id for _, notice_id in told_of}) == 4
    first, second = (each.location for each in details.exports if each.kind == "files_ready")
    assert first != second
    with zipfile.ZipFile(str(second)) as archive:
        logs = {name for name in archive.namelist() if name.startswith("files/logs/")}
    assert logs == {f"files/logs/{task}-{attempt}.log" for task in range(3) for attempt in (1, 2)}
    await eventually(lambda: not stack.processes(run), patience=PATIENCE)


# Bad input


async def test_what_cannot_be_is_one_line_and_changes_nothing(stack: Site, runs: Runs, later: Runs) -> None:
    completed, failed, going_on = runs["polite"], runs["racing"], later["going_on"]
    reason = "r" * 100_000
    await stack.until_running(going_on, 1)
    before = [stack.details(run) for run in (completed, failed, going_on)]
    bad = {
        ("stop", "999999"): (3, "there is no run 999999"),
        ("stop", "seven"): (3, "is neither a RunID (a number) nor a run_uid"),
        ("stop", str(failed.run_id)): (6, "there is nothing to stop"),
        ("stop", str(going_on.run_id), "--reason", reason): (2, "--reason: expected at most 1024 characters"),
        ("stop", str(going_on.run_id), "--actor", reason): (2, "--actor: expected at most 256 characters"),
        ("resume", "999999"): (3, "there is no run 999999"),
        ("resume", str(failed.run_id)): (6, "there is nothing to resume, but it can be reopened"),
        ("resume", str(completed.run_id), "--reopen"): (6, "only a run that ended FAILED is reopened"),
        ("resume", str(going_on.run_id), "--reopen"): (6, "only a run that ended FAILED is reopened"),
    }
    answers = await asyncio.gather(*(command(stack, *words) for words in bad))
    for (status, told), (expected, words) in zip(answers, bad.values(), strict=True):
        assert (status, len(answer(told))) == (expected, 1), told
        assert words in told

    client = await stack.control.engine.client()
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await client.get_workflow_handle(going_on.workflow_id).execute_update("stop", {"actor": "a" * 1_000_000})
    assert "actor: expected at most 400 characters" in str(refused.value.cause)
    await _refused_by_its_workflow(stack, "crawler: ", {"run_id": going_on.run_id, "crawler": "polite"})
    await _refused_by_its_workflow(stack, "there is no run", {"run_id": 999_999, "crawler": "gated"})
    for field in ("grace_seconds", "max_duration_seconds", "start_limit_seconds"):
        await _refused_by_its_workflow(stack, field, {"crawler": "gated", field: -1})
    assert [stack.details(run) for run in (completed, failed)] == before[:2]
    after = stack.details(going_on)
    assert (after.run.status, after.run.epoch, after.log) == (RunStatus.PROCESSING, 1, before[2].log)
    stack.release(going_on, 0)
    await stack.assert_true(going_on, {0: 0})


async def _refused_by_its_workflow(stack: Site, field: str, request: dict[str, object]) -> None:
    client = await stack.control.engine.client()
    handle = await client.start_workflow(
        RUN_WORKFLOW, request, id=f"bad-{uuid4()}", task_queue=stack.control.engine.task_queue
    )
    with pytest.raises(LifecycleError) as refused:
        await stack.control.engine.result(handle)
    assert refused.value.message.startswith(field)
    assert len(refused.value.message.splitlines()) == 1


# Schedules


async def test_an_occurrence_of_a_schedule_is_a_run(stack: Site) -> None:
    """Due every second, one run at a time; crawlctl tells which run it was, and why the others were none."""
    create = ("schedule", "create", "every-second", "gated", "--every", "1s", "--tasks", "2")
    status, told = await command(stack, *create)
    assert status == 0, told
    schedules = stack.control.schedules

    async def begun() -> int | None:
        details = await schedules.show("every-second")
        return next((each.run_id for each in details.occurrences if each.run_id), None)

    run_id = await eventually_async(begun, patience=PATIENCE)
    assert run_id is not None
    stack.asked.append(run_id)

    async def skipped() -> bool:
        return any(each.reason for each in (await schedules.show("every-second")).occurrences)

    await eventually_async(skipped, patience=PATIENCE)
    await stack.control.asked_by(Requester("ann")).schedules.pause("every-second", reason="enough")
    record = stack.control.runs.show(run_id).run
    run = Started(workflow_id=record.workflow_id, first_execution_run_id="", run_id=run_id, run_uid=record.run_uid)
    assert (record.trigger, record.workflow_id[:19]) == (Trigger.SCHEDULED, "crawl-every-second-")
    await stack.until_running(run, 2)
    stack.release(run, 0, 1)
    await stack.assert_true(run, {0: 0, 1: 0})

    status, told = await command(stack, "schedule", "show", "every-second", "--last", "500")
    assert status == 0, told
    for words in (f"run {run_id} COMPLETED", f"overlap  {run.workflow_id} was still open", "paused by ann: enough"):
        assert words in told
    status, told = await command(stack, *create)
    assert (status, "there is a schedule every-second already" in told) == (6, True)
    assert await command(stack, "schedule", "delete", "every-second") == (
        0,
        "schedule every-second is deleted; runs under way continue\n",
    )
