"""The courses that a run can take: which activities belong to one only, and what must be true when it is over."""

import asyncio
import json
import os
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import RPCTimeoutOrCancelledError, WorkflowExecutionStatus
from temporalio.service import RPCError

from crawler_lifecycle.delivery.adapters.zip_writer import archived_name
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.limits import LEAST_TASKS
from crawler_lifecycle.model.naming import (
    AUDIT_WORKFLOW,
    EXPORT_WORKFLOW,
    FLOW_WORKFLOW,
    RUN_WORKFLOW,
    SCHEDULED_FLOW_WORKFLOW,
    export_workflow_id,
)
from crawler_lifecycle.model.reasons import ADMISSION, IMAGE_PULL
from crawler_lifecycle.model.requests import StopRequest
from crawler_lifecycle.model.run_plan import ExportedEnd, RunRef
from crawler_lifecycle.model.states import RunStatus, StopPhase, TaskStatus, Trigger
from crawler_lifecycle.runs.rules.limits import HELD, RELEASED
from crawler_lifecycle.temporal.visibility import CRAWLER_NAME
from tests.crash.audits import BEFORE_THE_EXPORT, audited
from tests.crash.flows import flow, flow_cancelled, flow_doors
from tests.crash.hooks import TROUBLES, hold, prevent_starts, suspend
from tests.crash.interruptions import (
    TURNS,
    assert_no_place_leaked,
    crowded,
    limited,
    lost_jobs,
    paused,
    paused_installation,
    take_turns,
)
from tests.crash.managers import manager, manager_drained, manager_stopped
from tests.crash.occurrences import occurrence, occurrence_cancelled
from tests.crash.stack import DELISTED, HOSTILE, HOSTILE_FILE, PATIENCE, Case, until
from tests.crash.steps import CANCEL, CHILD_BEGUN, CHILD_ENDED, START, STEPS, TIMER
from tests.process.stops import assert_stopped, events, notices, workflow_status

PLAIN = "plain"
A_TIMER = f"{STEPS}.{RUN_WORKFLOW} {TIMER}"
GRACE = 10
TOLD_OF = 8
CHILDREN = 5
REFUSED = 3
AN_ANSWER = timedelta(seconds=20)


@dataclass(frozen=True)
class Course:
    """`only`: what no other course comes to. `also`: what others do come to, but otherwise.

    `steps`: of workflows, that no other course comes to and no activity leads to. `alone`: in an installation of its
    own, with a dispatcher if `dispatched`. `hosted`: beside a host of steps. `before`: where its worker dies besides,
    to make what it is about. `failing`: activities that fail besides, if the course comes to them."""

    take: Callable[[Case], Awaitable[Started | None]]
    only: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    alone: bool = False
    dispatched: bool = False
    hosted: bool = False
    before: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()

    @property
    def activities(self) -> frozenset[str]:
        return self.only | self.also


async def plain(case: Case, trigger: Trigger = Trigger.API) -> Started:
    """The main job succeeds, and its child fails in a later look: evidence has a single try in each look, so a death
    before the first try leaves the death after a try to the second look.
    """
    case.deaths.arm()
    run = await case.begin(tasks=2, trigger=trigger)
    _leave_a_link(case, run)
    if A_TIMER in case.plan.deaths:  # a nudge for a job that ends may come before any timer
        await until(lambda: any(point.startswith(A_TIMER) for point in case.noted))
    case.site.release(run, 0)
    await until(lambda: case.site.details(run).tasks[0].status.is_over)
    case.site.release(run, 1, codes={1: 3})
    await case.until_handed_over(run)
    await case.site.assert_true(run, {0: 0, 1: 3})
    return run


async def scheduled(case: Case) -> Started:
    return await plain(case, trigger=Trigger.SCHEDULED)


async def stopped(case: Case) -> Started:
    """One task runs and listens, one is not deployed yet."""
    run = await case.begin("polite", tasks=2, max_parallel=1)
    await _until_running(case, run, TaskStatus.QUEUED)
    case.deaths.arm()
    await case.site.control.runs.stop(run.run_id, StopRequest(actor="ann"))
    await case.until_handed_over(run)
    await assert_stopped(case.site, run)
    return run


async def forced(case: Case) -> Started:
    """A job that does not listen; asked for by an update."""
    case.deaths.arm()
    run = await case.begin("stubborn")
    await _until_running(case, run)
    await _stop_by_update(case, run, StopRequest(actor="ann", force=True))
    await case.until_handed_over(run)
    await assert_stopped(case.site, run, "stopped_forced")
    return run


async def resumed(case: Case) -> Started:
    """Its workflow is terminated, and somebody asks another workflow to go on with it."""
    run = await case.begin()
    await _until_running(case, run)
    client = await case.site.control.engine.client()
    await client.get_workflow_handle(run.workflow_id).terminate("a test")
    case.deaths.arm()
    await case.go_on(run, f"{run.workflow_id}-elsewhere")
    case.site.release(run, 0)
    await case.until_handed_over(run)
    await case.site.assert_true(run, {0: 0})
    assert case.site.details(run).run.workflow_id == run.workflow_id
    return run


async def stop_resumed(case: Case) -> Started:
    """Its workflow is terminated in the middle of a stop; whoever goes on with it ends what does not listen."""
    run = await case.begin("stubborn", grace_seconds=GRACE)
    await _until_running(case, run)
    await case.site.control.runs.stop(run.run_id, StopRequest(actor="ann"))
    await until(lambda: StopPhase.JOBS_ASKED in events(case.site.details(run)))
    client = await case.site.control.engine.client()
    await client.get_workflow_handle(run.workflow_id).terminate("a test")
    case.deaths.arm()
    await case.go_on(run)
    await case.until_handed_over(run)
    await assert_stopped(case.site, run, "stopped_forced")
    return run


async def cancelled(case: Case) -> Started:
    """By Temporal's own tools; its history becomes too long before the stop is proved."""
    run = await case.begin("stubborn")
    await _until_running(case, run)
    case.deaths.arm()
    client = await case.site.control.engine.client()
    await client.get_workflow_handle(run.workflow_id).cancel()
    await case.until_it_goes_on(run)
    await case.site.control.runs.stop(run.run_id, StopRequest(actor="ann", force=True))
    await case.until_handed_over(run)
    await assert_stopped(case.site, run, "stopped_forced")
    assert await workflow_status(case.site, run.workflow_id) is WorkflowExecutionStatus.CANCELED
    return run


async def unwanted(case: Case) -> Started:
    """Another attempt's job lives on, as after a restored database: it ends, and the run's own goes on."""
    run = await case.begin()
    await _until_running(case, run)
    case.deaths.arm()
    await case.deploy(run, attempt=2)
    await until((case.site.job_folder(run, 0, 2) / "exit.json").exists)
    case.site.release(run, 0)
    details = await case.until_handed_over(run)
    assert (details.run.status, details.tasks[0].attempt) == (RunStatus.COMPLETED, 1)
    jobs = {key: (job.began, job.ends) for key, job in case.site.jobs(run).items()}
    assert jobs == {(0, 1): (1, (0,)), (0, 2): (1, ())}
    return run


async def telling(case: Case) -> Started:
    """Its tasks end one by one, each time something that is told of; a notice that its worker dies with is not sent
    again, as the next says more."""
    run = await case.begin(tasks=TOLD_OF)
    await until(lambda: case.site.statuses(run) == [TaskStatus.RUNNING] * TOLD_OF)
    case.deaths.arm()
    for task in reversed(range(TOLD_OF)):
        case.site.release(run, task)
        await until(lambda over=task: case.site.statuses(run)[over] is TaskStatus.SUCCEEDED)  # type: ignore[misc]
    await case.until_handed_over(run)
    await case.site.assert_true(run, dict.fromkeys(range(TOLD_OF), 0))
    return run


async def held(case: Case) -> Started:
    """Its job is suspended for a while, and its limits stand still."""
    suspended = suspend(case.deaths.folder)
    suspended.touch()
    case.deaths.arm()
    run = await case.begin()
    await until(lambda: HELD in events(case.site.details(run)))
    suspended.unlink()
    case.site.release(run, 0)
    details = await case.until_handed_over(run)
    await case.site.assert_true(run, {0: 0})
    assert [event for event in events(details) if event in (HELD, RELEASED)] == [HELD, RELEASED]
    return run


async def admitted(case: Case) -> Started:
    """Its label allows one run and two tasks: the run waits for its permit, and a child task for its place."""
    label = limited(case, runs=1, tasks=LEAST_TASKS)
    first = await case.begin(labels=[label])
    await _until_running(case, first)
    case.deaths.arm()
    run = await case.begin(name="waits", labels=[label], tasks=TURNS)
    await until(lambda: case.site.details(run).run.waiting_cause == ADMISSION)
    case.site.release(first, 0)
    ended = await case.until_handed_over(first)
    details = await take_turns(case, run)
    assert details.run.admitted_at
    assert ended.run.finished_at
    assert details.run.admitted_at > ended.run.finished_at, "the limit was exceeded"
    assert_no_place_leaked(case, label)
    return run


async def unstartable(case: Case) -> Started:
    """Its main job waits for an image that never comes: it is given up before it has started."""
    prevent_starts(case.deaths.folder).touch()
    case.deaths.arm()
    run = await case.begin()
    details = await case.until_handed_over(run)
    (task,) = details.tasks
    assert (details.run.status, details.run.reason) == (RunStatus.FAILED, "main_job_failed")
    assert (task.status, task.reason) == (TaskStatus.FAILED, IMAGE_PULL)
    return run


async def reopened(case: Case) -> Started:
    """It fails, and gets another attempt, for which somebody asks another workflow."""
    run = await case.begin()
    case.site.release(run, 0, codes={0: 3})
    await case.until_handed_over(run)
    await case.site.assert_true(run, {0: 3})
    await case.until_closed(run.workflow_id)
    case.site.release(run, 0)
    case.deaths.arm()
    await case.go_on(run, f"{run.workflow_id}-elsewhere", reopen=True)
    details = await case.until_handed_over(run, ends=2)
    assert (details.run.status, details.tasks[0].attempt) == (RunStatus.COMPLETED, 2)
    jobs = {key: (job.began, job.ends) for key, job in case.site.jobs(run).items()}
    assert jobs == {(0, 1): (1, (3,)), (0, 2): (1, (0,))}
    return run


async def retried(case: Case) -> Started:
    """Its program fails, and gets another attempt while the run goes on: once, whoever dies."""
    run = await case.begin(retries={"program": 1, "pause_seconds": 5})
    await _until_running(case, run)
    case.deaths.arm()
    case.site.release(run, 0, codes={0: 3})
    await until((case.site.job_folder(run, 0) / "exit.json").exists)
    case.site.hold(run, 0)
    await until(lambda: case.site.details(run).tasks[0].attempt == 2)
    case.site.release(run, 0)
    details = await case.until_handed_over(run)
    (task,) = details.tasks
    assert (details.run.status, task.attempt, task.program_failures) == (RunStatus.COMPLETED, 2, 1)
    assert [(former.attempt, former.exit_code) for former in task.former_attempts] == [(1, 3)]
    jobs = {key: (job.began, job.ends) for key, job in case.site.jobs(run).items()}
    assert jobs == {(0, 1): (1, (3,)), (0, 2): (1, (0,))}
    assert events(details).count("next attempt") == 1
    return run


async def exported_again(case: Case) -> Started:
    run = await case.begin()
    case.site.release(run, 0)
    await case.until_handed_over(run)
    case.deaths.arm()
    step = ExportedEnd(run=RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=1))
    workflow_id = export_workflow_id(run.run_uid)
    await case.site.control.engine.start(EXPORT_WORKFLOW, step, workflow_id, "a crash test")
    await case.until_closed(workflow_id)
    await case.site.assert_true(run, {0: 0})
    return run


async def delisted(case: Case) -> Started:
    """Its crawler is taken out of the catalogue before its children are deployed. That the scheduler service refuses
    them is told by the dispatcher, whatever happens to both meanwhile: so there are some."""
    run = await case.begin(DELISTED, tasks=1 + REFUSED, max_parallel=1)
    await until(lambda: case.site.statuses(run) == [TaskStatus.RUNNING, *[TaskStatus.QUEUED] * REFUSED])
    case.delist()
    case.site.release(run, 0)
    details = await case.until_handed_over(run)
    assert [task.status for task in details.tasks] == [TaskStatus.SUCCEEDED, *[TaskStatus.FAILED] * REFUSED]
    assert details.run.status is RunStatus.FAILED
    assert {task.job_name for task in details.tasks[1:]} == {None}
    jobs = {key: (job.began, job.ends) for key, job in case.site.jobs(run).items()}
    assert jobs == {(0, 1): (1, (0,))}
    return run


async def overtaken(case: Case) -> Started:
    """Stopped while its children are being deployed, and so ended again by the dispatcher: run after run, until
    everything has happened to it at that."""
    dispatcher = case.notes_of("dispatcher")
    while len(list(dispatcher.glob("cluster.stop.*"))) < len(TROUBLES):
        run = await case.begin("polite", name=str(len(case.begun)), tasks=1 + CHILDREN)
        held = hold(dispatcher, run.run_uid)
        held.touch()
        await until(lambda run=run: case.site.jobs(run).keys() - {(0, 1)})  # type: ignore[misc]
        await case.site.control.runs.stop(run.run_id, StopRequest(actor="ann"))
        await until(lambda run=run: StopPhase.QUEUED_CANCELLED in events(case.site.details(run)))  # type: ignore[misc]
        held.unlink()
        await case.until_handed_over(run)
        await assert_stopped(case.site, run)
    return run


async def _stop_by_update(case: Case, run: Started, stop: StopRequest) -> None:
    """Said again under its id while nobody answers."""
    client = await case.site.control.engine.client()
    handle = client.get_workflow_handle(run.workflow_id)

    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(RPCError, RPCTimeoutOrCancelledError):
                await handle.execute_update("stop", stop, id="stop-it", rpc_timeout=AN_ANSWER)
                return


async def _until_running(case: Case, run: Started, *others: TaskStatus) -> None:
    """The main job, and the run has told that it has started."""

    def runs() -> bool:
        told = [line["kind"] for line in notices(case.site, run)]
        return case.site.statuses(run) == [TaskStatus.RUNNING, *others] and "started" in told

    await until(runs)


async def hostile(case: Case) -> Started:
    """A crawler whose name, arguments and files are full of orders: they are carried through, and not out."""
    arguments = {HOSTILE: HOSTILE, "-rf": "$(CRAWL_TASK)\n--help"}
    run = await case.begin(HOSTILE, arguments=arguments, requested_by=HOSTILE)
    details = await case.until_handed_over(run)
    assert (details.run.status, details.run.crawler) == (RunStatus.COMPLETED, HOSTILE)
    ready = next(each for each in details.exports if each.kind == "files_ready")
    with zipfile.ZipFile(str(ready.location)) as archive:
        told = json.loads(archive.read(f"files/{archived_name(HOSTILE_FILE)}"))
    assert told == [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
    assert {notice["crawler"] for notice in notices(case.site, run)} == {HOSTILE}
    assert not any("pwned" in files for _, _, files in os.walk(case.site.state))  # jobs' files come and go meanwhile
    client = await case.site.control.engine.client()
    description = await client.get_workflow_handle(run.workflow_id).describe()
    assert description.typed_search_attributes.get(CRAWLER_NAME) == HOSTILE
    return run


def _leave_a_link(case: Case, run: Started) -> None:
    """A link among the files of a run is left out of the archive, and the export notes that."""
    folder = case.site.control.installation.settings.files_folder / run.run_uid
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link").symlink_to("elsewhere")


def _of_runs(*steps: str) -> frozenset[str]:
    return frozenset(f"{RUN_WORKFLOW} {each}" for each in steps)


def _of_flows(*steps: str) -> frozenset[str]:
    return frozenset(f"{FLOW_WORKFLOW} {each}" for each in steps)


def _of_occurrences(*steps: str) -> frozenset[str]:
    return frozenset(f"{SCHEDULED_FLOW_WORKFLOW} {step}" for step in steps)


STOP = frozenset(("add_cancellation_log_to_db", "cancel_queued_tasks", "note_stop_phase", "k8_stop_task"))
AUDIT = frozenset(("begin_audit", "audit_runs", "audit_jobs", "audit_handovers", "audit_flows", "finish_audit"))
LOOK = frozenset((
    *("get_active_running_tasks", "get_history_statuses_to_sync", "get_bulk_task_history_data", "reconcile_tasks"),
    *("sync_statuses", "count_alive_tasks"),
))  # fmt: skip
BEGINNING = frozenset((
    *("create_history_id", "add_workflow_id", "run_onetime_crawler", "get_main_job_status", "update_run_started"),
    "signal_pusher_started",
))  # fmt: skip
END = frozenset((
    *("update_run_status", "remove_jobs", "signal_pusher_finished", "initiate_export_signal"),
    "export_supporting_files",
))  # fmt: skip
HELD_BY_A_PAUSE = frozenset(("run_onetime_crawler", "hold_limits", "sync_statuses", "count_alive_tasks"))
FLOW = frozenset(
    ("begin_flow", "read_flow", "write_flow", "start_crawls", "grow_flow", "stop_attempts", "announce_flow")
)
FLOW_CANCELLED = frozenset(("check_starts", "cancel_flow"))
# an activity of a host, and so of no worker that the generator asks
STEPS_OF_FLOWS = _of_flows(*FLOW, *FLOW_CANCELLED, "run_steps")
# no handler of the occurrence's workflow leads to these
OF_CHILDREN = _of_occurrences("push_occurrence", CHILD_BEGUN, CHILD_ENDED, TIMER, CANCEL)
COURSES = {
    "scheduled": Course(scheduled, only=frozenset(("run_scheduled_crawler",))),
    "stopped": Course(stopped, only=STOP | {"signal_pusher_stopped"}, steps=_of_runs("signal stop")),
    "forced": Course(forced, only=frozenset(("k8_stop_pod",)), steps=_of_runs("update stop")),
    "resumed": Course(resumed, only=frozenset(("hand_over_run",)), also=frozenset(("take_over_run",))),
    "stop_resumed": Course(stop_resumed, also=frozenset(("take_over_run",))),
    "cancelled": Course(cancelled, only=frozenset(("cancel_execution",)), steps=_of_runs("cancel", "continuation")),
    "unwanted": Course(unwanted, only=frozenset(("k8_stop_unwanted",))),
    "telling": Course(telling, only=frozenset(("signal_pusher_progress",))),
    "held": Course(held, only=frozenset(("hold_limits",))),
    "admitted": Course(admitted, also=frozenset(("run_onetime_crawler", "hold_limits", "update_run_status"))),
    "crowded": Course(crowded, also=LOOK | END),
    "paused": Course(paused, also=BEGINNING | LOOK | END | {"hold_limits"}),
    "paused_installation": Course(paused_installation, also=HELD_BY_A_PAUSE, alone=True, dispatched=True),
    "unstartable": Course(unstartable, also=frozenset(("get_main_job_status",))),
    "reopened": Course(reopened, only=frozenset(("take_over_run",))),
    "retried": Course(retried, also=LOOK),
    "lost_jobs": Course(lost_jobs, also=LOOK | END),
    "exported_again": Course(
        exported_again,
        also=frozenset(("initiate_export_signal", "export_supporting_files")),
        steps=frozenset((f"{EXPORT_WORKFLOW} start",)),
    ),
    "audited": Course(
        audited,
        only=AUDIT,
        also=frozenset(("take_over_run",)),
        steps=frozenset((f"{AUDIT_WORKFLOW} start",)),
        alone=True,
        before=frozenset((BEFORE_THE_EXPORT,)),
    ),
    "flow": Course(
        flow,
        only=FLOW,
        steps=_of_flows(*FLOW, "run_steps", "start", "signal nudge", "timer"),
        hosted=True,
        failing=frozenset(("check_starts",)),  # refuses a crawl if the start could not ask the catalogue in time
    ),
    "flow_cancelled": Course(
        flow_cancelled,
        only=FLOW_CANCELLED,
        steps=_of_flows(*FLOW_CANCELLED, "cancel", "continuation"),
        hosted=True,
    ),
    "flow_doors": Course(flow_doors),
    "manager": Course(manager, hosted=True),
    "manager_drained": Course(manager_drained, hosted=True),
    "manager_stopped": Course(manager_stopped, hosted=True),
    "occurrence": Course(
        occurrence,
        only=frozenset(("push_occurrence",)),
        steps=_of_occurrences("push_occurrence", START, CHILD_BEGUN, CHILD_ENDED, TIMER),
    ),
    "occurrence_cancelled": Course(
        occurrence_cancelled, also=frozenset(("push_occurrence",)), steps=_of_occurrences(CANCEL)
    ),
    "hostile": Course(hostile),
    "delisted": Course(delisted),
    "overtaken": Course(overtaken),
    PLAIN: Course(plain),
}


def courses_of(activities: Sequence[str]) -> list[tuple[str, str]]:
    """Each activity with every course that it has to be died on: what no other course claims has the plain one."""
    claimed = frozenset[str]().union(*(course.only for course in COURSES.values()))
    found = [(name, each) for name, course in COURSES.items() for each in activities if each in course.activities]
    return found + [(PLAIN, each) for each in activities if each not in claimed]


def courses_by_step(steps: set[str]) -> dict[str, set[str]]:
    """The same of the steps of workflows, by course."""
    found = {name: steps & course.steps for name, course in COURSES.items() if course.steps}
    return found | {PLAIN: steps - set().union(*found.values())}
