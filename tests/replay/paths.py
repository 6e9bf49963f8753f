"""Every path through the lifecycle workflow, as a script and a request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import WorkflowHistory

from crawler_lifecycle.model.audits import AuditPage, AuditPart, AuditStep, FindingKind
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import Clock, ExportsOwed, RunPlan
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus, Trigger
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.model import DeploymentOutcome, MainJobStatus, TakenOver, TakeOver
from tests.kit.temporal.activity_events import LOCAL, local_name
from tests.kit.temporal.script import DEPLOYED, STARTED, UNAVAILABLE, Script, in_turn

IN_A_LOOK = "get_history_statuses_to_sync"
BOOKS = RunRequest(crawler="books")
RESUME = RunRequest(crawler="books", run_id=7)
REOPEN = RunRequest(crawler="books", run_id=7, reopen=True)


@dataclass(frozen=True)
class Ask:
    door: str  # signal, update or cancel
    stop: dict[str, object] = field(default_factory=dict)
    before: str = "get_main_job_status"  # while this is asked for, for the first time


@dataclass(frozen=True)
class Path:
    script: Callable[[], Script]
    request: object = field(default=BOOKS)
    workflow: str = "CrawlerLifecycleWorkflow"
    stop: dict[str, object] | None = None  # a stop that comes with the start
    asks: Sequence[Ask] = ()  # stops that come later
    continues: bool = False  # as new, on a server that suggests it early


def _over(task: int, status: TaskStatus) -> TaskChange:
    return TaskChange(task=task, attempt=1, version=1, status=status, reason="exit_3", exit_code=3)


def _changing(look: int) -> list[TaskChange]:
    ends = [_over(0, TaskStatus.SUCCEEDED), _over(1, TaskStatus.FAILED)]
    return ends if look == 2 else []


def _stubborn(**said: Any) -> Script:
    script = Script(**said)
    script.alive = lambda look: 0 if "k8_stop_pod" in script.names else 1
    return script


def _obedient(**said: Any) -> Script:
    script = Script(**said)
    script.alive = lambda look: 0 if "k8_stop_task" in script.names else 1
    return script


def _deaf(looks: int) -> Script:
    """Jobs that neither end when asked nor when forced, until so many looks were made."""
    return Script(alive=lambda look: 1 if look < looks else 0)


def _resumed(status: RunStatus, intent: Intent = Intent.RUN, end: int = 1) -> Script:
    script = _obedient() if intent is not Intent.RUN else Script()

    def taken(step: TakeOver) -> TakenOver:
        begun = datetime.now(UTC)
        plan = RunPlan(run=script.run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=begun, end=end)
        started = None if status is RunStatus.INITIALIZING else begun
        return TakenOver(plan=plan, status=status, intent=intent, started_at=started)

    script.taken = taken
    return script


def _asked_long_ago() -> Script:
    """The stop's first supervisor did not live until its force."""
    script, before = _stubborn(), _resumed(RunStatus.STOPPING, Intent.STOP).taken
    asked_at = datetime.now(UTC) - timedelta(hours=2)
    script.taken = lambda step: before(step).model_copy(update={"stopped_at": asked_at, "jobs_asked_at": asked_at})
    return script


def _limited(clock: Clock) -> Script:
    """Its limit of time is ahead; the clock is what an earlier supervisor left."""
    script = Script(alive=lambda look: 1 if look < 3 else 0)

    def taken(step: TakeOver) -> TakenOver:
        begun = datetime.now(UTC)
        plan = RunPlan(run=script.run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=begun, clock=clock)
        limited = plan.model_copy(update={"max_duration_seconds": 360_000})
        return TakenOver(plan=limited, status=RunStatus.PROCESSING, started_at=begun)

    script.taken = taken
    return script


def _owing(**said: Any) -> Script:
    """Over, and some of the exports of its ends are not there."""
    script = Script(**said)

    def taken(step: TakeOver) -> TakenOver:
        plan = RunPlan(run=script.run, crawler="books", trigger=Trigger.API, tasks=1, begun_at=datetime.now(UTC), end=2)
        return TakenOver(plan=plan, status=RunStatus.COMPLETED, owed=ExportsOwed(events=[2, 1], archives=[1]))

    script.taken = taken
    return script


def _elsewhere() -> Script:
    return Script(taken=lambda step: TakenOver(status=RunStatus.PROCESSING, supervised_by="crawl-1"))


def _in_pages(number: int) -> Callable[[AuditStep], AuditPage]:
    """Of runs; all else is one page."""

    def page(step: AuditStep) -> AuditPage:
        done = int(step.after or 0) + 1
        rest = str(done) if step.part is AuditPart.RUNS and done < number else None
        return AuditPage(examined=1000, found={FindingKind.UNSUPERVISED: 1}, acted=1, rest=rest)

    return page


SUSPENDED = MainJobStatus(cause="suspended")
WAITS = MainJobStatus(cause="unschedulable")
HELD = DeploymentOutcome(cause="admission", message="the installation has as many runs as its limit allows", held=True)
REFUSED = DeploymentOutcome(cause="deployment_refused", refused=True)
EXPORT: dict[str, object] = {"run": {"run_id": 7, "run_uid": "8a0d2b52-6f0e-4f6c-9d8e-0d1c7c1f6b1e", "epoch": 1}}

RUN_PATHS = {
    "plain": Path(lambda: Script(alive=lambda look: 1 if look < 3 else 0, changes=_changing, search_attributes=True)),
    "scheduled": Path(Script, RunRequest(crawler="books", trigger=Trigger.SCHEDULED)),
    "deployed_at_the_third_try": Path(lambda: Script(deployments=in_turn(UNAVAILABLE, UNAVAILABLE, DEPLOYED))),
    "held_until_its_permit": Path(lambda: Script(deployments=in_turn(HELD, HELD, UNAVAILABLE, DEPLOYED))),
    "stopped_while_it_waited_for_its_permit": Path(
        lambda: Script(deployments=in_turn(HELD)), asks=[Ask("signal", {"actor": "ann"}, "hold_limits")]
    ),
    "refused": Path(lambda: Script(deployments=in_turn(REFUSED))),
    "waited": Path(lambda: Script(statuses=in_turn(WAITS, WAITS, STARTED))),
    "vanished": Path(lambda: Script(statuses=in_turn(MainJobStatus(vanished=True)))),
    "never_deployed": Path(
        lambda: Script(deployments=in_turn(UNAVAILABLE)), RunRequest(crawler="books", start_limit_seconds=12)
    ),
    "never_started": Path(
        lambda: _stubborn(statuses=in_turn(MainJobStatus(cause="capacity"))),
        RunRequest(crawler="books", start_limit_seconds=10, grace_seconds=3),
    ),
    "stopped_at_once": Path(_obedient, stop={"actor": "ann"}),
    "stopped_forced": Path(_stubborn, stop={"force": True}),
    "stopped_after_grace": Path(_stubborn, RunRequest(crawler="books", grace_seconds=3), stop={}),
    "stopped_in_the_database": Path(
        lambda: _obedient(intent=lambda look: Intent.STOP if look > 1 else Intent.RUN)
    ),
    "ended_as_it_was_stopped": Path(lambda: Script(intent=lambda look: Intent.STOP, stopped=0)),
    "stopped_by_signal_in_a_look": Path(_obedient, asks=[Ask("signal", {"actor": "ann"}, IN_A_LOOK)]),
    "stopped_by_update_in_a_look": Path(_obedient, asks=[Ask("update", {"actor": "ann"}, IN_A_LOOK)]),
    "cancelled_in_a_look": Path(_obedient, asks=[Ask("cancel", before=IN_A_LOOK)]),
    "forced_after_a_stop": Path(
        _stubborn,
        asks=[Ask("signal", {"actor": "ann"}), Ask("signal", {"actor": "bob", "force": True}, "k8_stop_task")],
    ),
    "forced_in_the_database": Path(
        lambda: _stubborn(intent=lambda look: Intent.FORCE if look > 1 else Intent.STOP), stop={"actor": "ann"}
    ),
    "stopped_while_the_end_is_written": Path(
        Script, asks=[Ask("signal", {"actor": "ann"}, "update_run_status"), Ask("update", {}, "update_run_status")]
    ),
    "stopped_at_once_and_again": Path(
        _obedient, stop={"actor": "ann"}, asks=[Ask("signal", {"actor": "bob", "force": True}, "cancel_queued_tasks")]
    ),
    "stopped_while_the_cluster_was_away": Path(
        lambda: Script(alive=lambda look: 1 if look < 2 else 0, failures={"k8_stop_task": 16}),
        RunRequest(crawler="books", grace_seconds=600),
        stop={},
    ),
    "stopped_too_late": Path(lambda: Script(stopped=0), stop={}),
    "left_after_a_stop": Path(lambda: Script(leaving=lambda look: {1: 2, 2: 1}.get(look, 0)), stop={}),
    "overdue": Path(
        lambda: Script(alive=lambda look: 1 if look < 3 else 0, unwanted=lambda look: "0" if look == 2 else "")
    ),
    "unwanted_in_a_stop": Path(
        lambda: Script(alive=lambda look: 0, unwanted=lambda look: "0" if look < 3 else ""), stop={}
    ),
    "looked_while_the_cluster_was_away": Path(
        lambda: Script(alive=lambda look: 1 if look < 8 else 0, known=lambda look: look in (1, 8))
    ),
    "written_too_late": Path(
        lambda: Script(
            alive=lambda look: 1 if look < 4 else 0,
            changes=lambda look: [_over(0, TaskStatus.SUCCEEDED)] if look in (2, 3) else [],
            stale=lambda look: 1 if look == 2 else 0,
        )
    ),
    "cancelled": Path(_obedient, asks=[Ask("cancel")]),
    "took_too_long": Path(_obedient, RunRequest(crawler="books", max_duration_seconds=9)),
    "resumed_before_start": Path(lambda: _resumed(RunStatus.INITIALIZING), RESUME),
    "never_seen_to_start": Path(
        lambda: Script(
            deployments=in_turn(UNAVAILABLE), statuses=in_turn(MainJobStatus(known=False), STARTED)
        ),
        RunRequest(crawler="books", start_limit_seconds=10),
    ),
    "started_at_the_last_look": Path(
        lambda: Script(statuses=in_turn(WAITS, WAITS, STARTED)), RunRequest(crawler="books", start_limit_seconds=12)
    ),
    "busy": Path(
        lambda: Script(
            alive=lambda look: 1 if look < 4 else 0, more=lambda look: look == 1, work=lambda look: 0.3 * look,
            failures={IN_A_LOOK: 3},
        )
    ),
    "suspended_before_its_start": Path(
        lambda: Script(statuses=in_turn(SUSPENDED, SUSPENDED, STARTED)),
        RunRequest(crawler="books", start_limit_seconds=8),
    ),
    "suspended_until_it_took_too_long": Path(
        lambda: _obedient(suspended=lambda look: look == 1), RunRequest(crawler="books", max_duration_seconds=100)
    ),
    "suspended_and_continued": Path(
        lambda: Script(suspended=lambda look: look % 3 == 0, alive=lambda look: 1 if look < 24 else 0),
        RunRequest(crawler="books", max_duration_seconds=360_000), continues=True,
    ),
    "suspended_while_it_continued": Path(
        lambda: Script(suspended=lambda look: look > 2, alive=lambda look: 1 if look < 24 else 0),
        RunRequest(crawler="books", max_duration_seconds=360_000), continues=True,
    ),
    "cancelled_at_a_limit": Path(
        _obedient, RunRequest(crawler="books", max_duration_seconds=9), asks=[Ask("cancel", before="k8_stop_task")]
    ),
    "resumed_after_its_grace": Path(_asked_long_ago, RESUME),
    "resumed_in_the_middle": Path(lambda: _resumed(RunStatus.PROCESSING), RESUME),
    "resumed_in_a_stop": Path(lambda: _resumed(RunStatus.STOPPING, Intent.STOP), RESUME),
    "resumed_after_the_end": Path(lambda: _resumed(RunStatus.COMPLETED), RESUME),
    "resumed_elsewhere": Path(_elsewhere, RESUME),
    "reopened": Path(lambda: _resumed(RunStatus.INITIALIZING, end=2), REOPEN),
    "reopened_for_its_children": Path(lambda: _resumed(RunStatus.PROCESSING, end=2), REOPEN),
    "stopped_by_update": Path(_obedient, asks=[Ask("update", {"actor": "ann", "reason": "wrong site"})]),
    "continued": Path(lambda: Script(alive=lambda look: 1 if look < 24 else 0), continues=True),
    "continued_in_deployment": Path(
        lambda: Script(deployments=in_turn(*[UNAVAILABLE] * 14, DEPLOYED)), continues=True
    ),
    "continued_in_a_stop": Path(lambda: _deaf(7), stop={"force": True, "actor": "ann"}, continues=True),
    "cancelled_and_continued": Path(lambda: _deaf(7), asks=[Ask("cancel")], continues=True),
    "nothing_delivered": Path(
        lambda: Script(
            failing=["signal_pusher_started", "signal_pusher_progress", "signal_pusher_finished",
                     "get_bulk_task_history_data", "initiate_export_signal"],
            alive=lambda look: 1 if look < 3 else 0,
            changes=_changing,
        )
    ),
    "start_told_after_it_continued": Path(
        lambda: Script(alive=lambda look: 1 if look < 24 else 0).refusing("signal_pusher_started", looks=8),
        continues=True,
    ),
    "start_told_later": Path(
        lambda: Script(alive=lambda look: 1 if look < 4 else 0).refusing("signal_pusher_started", looks=2)
    ),
    "bad_input": Path(Script, {"crawler": ""}),
    "exported_again": Path(Script, EXPORT, "RunExportWorkflow"),
    "handed_over_at_once": Path(Script),
    "handed_over_without_its_event": Path(lambda: Script(failing=["initiate_export_signal"])),
    "resumed_with_a_limit": Path(lambda: _limited(Clock()), RESUME),
    "resumed_while_suspended": Path(lambda: _limited(Clock(held_since=datetime.now(UTC), changes=1)), RESUME),
    "resumed_with_exports_owed": Path(_owing, RESUME),
    "resumed_with_events_refused": Path(lambda: _owing(failing=["initiate_export_signal"]), RESUME),
    "exported_again_with_what_is_owed": Path(
        Script, EXPORT | {"end": 2, "owed": {"events": [2, 1], "archives": [2]}}, "RunExportWorkflow"
    ),
    "exported_again_without_its_event": Path(
        lambda: Script(failing=["initiate_export_signal"]), EXPORT, "RunExportWorkflow"
    ),
    "audited": Path(lambda: Script(audited=_in_pages(3)), {"repair": True}, "AuditWorkflow"),
    "audited_in_an_outage": Path(lambda: Script(failing=["audit_jobs"]), {}, "AuditWorkflow"),
    "audited_continued": Path(lambda: Script(audited=_in_pages(40)), {}, "AuditWorkflow", continues=True),
    "audit_refused": Path(Script, {"repair": "yes"}, "AuditWorkflow"),
}  # fmt: skip


def commands(histories: Sequence[WorkflowHistory]) -> list[str]:
    """What the workflow asked of the server, in order: all that replay compares."""
    events = [event for history in histories for event in history.events]
    return [line for event in events if (line := _command(event.WhichOneof("attributes"), event))]


def _command(kind: str | None, event: object) -> str | None:
    details = getattr(event, kind) if kind else None
    match kind:
        case "activity_task_scheduled_event_attributes":
            return f"activity {details.activity_type.name}"  # type: ignore[union-attr]
        case "start_child_workflow_execution_initiated_event_attributes":
            return f"child {details.workflow_type.name}"  # type: ignore[union-attr]
        case "timer_started_event_attributes":
            return _timer(details.start_to_fire_timeout.seconds)  # type: ignore[union-attr]
        case "marker_recorded_event_attributes":
            is_local = details.marker_name == LOCAL  # type: ignore[union-attr]
            return f"activity inside {local_name(details)}" if is_local else f"marker {details.marker_name}"  # type: ignore
        case "upsert_workflow_search_attributes_event_attributes":
            return "search attributes"
        case "workflow_execution_update_accepted_event_attributes":
            return "update accepted"
        case "workflow_execution_update_completed_event_attributes":
            return "update answered"
        case "workflow_execution_continued_as_new_event_attributes":
            return "continued as new"
        case "workflow_execution_completed_event_attributes":
            return "completed"
        case "workflow_execution_failed_event_attributes":
            return "failed"
        case "workflow_execution_canceled_event_attributes":
            return "cancelled"
        case _:
            return None


def _timer(seconds: int) -> str:
    """Replay compares no durations, and a busy machine takes a second off a wait until a given time."""
    return "timer of minutes" if seconds > 30 else "timer of seconds"
