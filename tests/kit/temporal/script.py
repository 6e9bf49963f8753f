"""A run as its workflow sees it: every activity by its name, answering as the test has written."""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any
from uuid import uuid4

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from crawler_lifecycle.base.ranges import from_ranges, to_ranges
from crawler_lifecycle.model.audits import AuditPage, AuditRef, AuditReport, AuditRequest, AuditStep
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.run_plan import (
    Clock,
    CloseRun,
    Counted,
    ExportedEnd,
    ExportedFiles,
    ExportSignal,
    Notify,
    Removal,
    RemoveJobs,
    RunInput,
    RunOutcome,
    RunPlan,
    RunRef,
)
from crawler_lifecycle.model.states import Intent, RunStatus, TaskStatus
from crawler_lifecycle.model.task_changes import (
    ActiveTasks,
    AliveTasks,
    CloseLook,
    Differences,
    EvidencePage,
    EvidenceRequest,
    EvidenceWrite,
    LookAt,
    RowsWritten,
    StatusWrite,
    TaskChange,
    TaskEvidence,
)
from crawler_lifecycle.runs.model import (
    CreateHistory,
    DeploymentOutcome,
    HoldLimits,
    LogCancellation,
    MainJobStatus,
    NotePhase,
    OwnExecution,
    RegisterWorkflow,
    RunMoment,
    StartRun,
    StopReport,
    StopTasks,
    TakenOver,
    TakeOver,
)
from crawler_lifecycle.temporal.engine import Engine

EXPORTS = ["initiate_export_signal", "export_supporting_files"]
CLOSING_NOTICES = ["signal_pusher_finished", "signal_pusher_stopped"]
# pairs in the order in which they may come, to be exchanged
SIDE_BY_SIDE = {
    ("run_onetime_crawler", "add_workflow_id"),
    ("run_scheduled_crawler", "add_workflow_id"),
    ("get_active_running_tasks", "signal_pusher_started"),
    tuple(reversed(EXPORTS)),
    *product(["remove_jobs", *EXPORTS], CLOSING_NOTICES),
}

DEPLOYED = DeploymentOutcome(job_id="job-1")
STARTED = MainJobStatus(started=True)
UNAVAILABLE = DeploymentOutcome(cause="scheduler_unavailable", message="connection refused")


def in_turn(*answers: Any) -> Callable[[], Any]:
    """Each answer once, the last one for ever."""
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def moments(kept: list[datetime]) -> Callable[[], Awaitable[None]]:
    """For `before`: when an activity was asked for, in the workflow's time."""

    async def keep() -> None:
        kept.append(activity.info().scheduled_time)

    return keep


@dataclass
class Script:
    """`deployments`, `statuses`: what the main job's activities answer in turn. `alive`: by the look's number."""

    deployments: Callable[[], DeploymentOutcome] = field(default_factory=lambda: in_turn(DEPLOYED))
    statuses: Callable[[], MainJobStatus] = field(default_factory=lambda: in_turn(STARTED))
    alive: Callable[[int], int] = lambda look: 0
    changes: Callable[[int], list[TaskChange]] = lambda look: []
    known: Callable[[int], bool] = lambda look: True
    more: Callable[[int], bool] = lambda look: False
    stale: Callable[[int], int] = lambda look: 0
    failing: Sequence[str] = ()
    unwanted: Callable[[int], str] = lambda look: ""
    saturated: Callable[[int], str | None] = lambda look: None
    suspended: Callable[[int], bool | None] = lambda look: False
    recheck: Callable[[int], float | None] = lambda look: None  # seconds
    work: Callable[[int], float] = lambda look: 0.01  # seconds
    clock: Clock = field(default_factory=Clock)  # as the timeline tells it
    hold: Callable[[HoldLimits], Clock | None] = lambda step: None
    removable: Callable[[int], str] = lambda look: ""
    leaving: Callable[[int], int] = lambda look: 0
    log_tail: str = ""  # of every task
    removals: Callable[[], Removal] = field(default_factory=lambda: in_turn(Removal()))
    intent: Callable[[int], Intent] = lambda look: Intent.RUN
    taken: Callable[[TakeOver], TakenOver] = lambda step: TakenOver(status=RunStatus.COMPLETED)
    search_attributes: bool = False
    records_stay: bool = False
    stopped: int = 1  # tasks that a stop ends
    calls: list[tuple[str, BaseModel]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)  # how often an activity fails before it succeeds
    before: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    run: RunRef = field(default_factory=lambda: RunRef(run_id=7, run_uid=str(uuid4()), epoch=1))
    request: AcceptedRequest | None = None
    audited: Callable[[AuditStep], AuditPage] = lambda step: AuditPage(examined=1)
    looks: int = 0

    @property
    def names(self) -> list[str]:
        """In their order. What was asked for at once is in the order of SIDE_BY_SIDE."""
        names = [name for name, _ in self.calls]
        for length in range(len(names), 1, -1):
            for first in range(length - 1):
                if tuple(names[first : first + 2]) in SIDE_BY_SIDE:
                    names[first : first + 2] = reversed(names[first : first + 2])
        return names

    def inputs(self, name: str) -> list[Any]:
        return [given for called, given in self.calls if called == name]

    def activities(self) -> list[Callable[..., Any]]:
        methods = [getattr(self, name) for name in vars(type(self))]
        return [method for method in methods if hasattr(method, "__temporal_activity_definition")]

    def refusing(self, name: str, looks: int) -> "Script":
        """Whoever is asked for it refuses until there were so many looks."""

        async def refuse() -> None:
            if self.looks < looks:
                raise ApplicationError(f"{name}: nobody answers", type="TemporaryError")

        self.before |= {name: refuse}
        return self

    async def _noted(self, name: str, given: BaseModel) -> None:
        self.calls.append((name, given))
        if name in self.before:
            await self.before[name]()
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            raise ApplicationError(f"{name}: nobody answers", type="TemporaryError")
        if name in self.failing:
            raise ApplicationError(f"{name} is told to fail", non_retryable=True)

    @activity.defn
    async def create_history_id(self, step: CreateHistory) -> RunPlan:
        await self._noted("create_history_id", step)
        self.request = step.request
        return RunPlan(
            run=self.run,
            crawler=step.request.crawler,
            trigger=step.request.trigger,
            tasks=step.request.tasks or 1,
            begun_at=activity.info().scheduled_time,
            start_limit_seconds=step.request.start_limit_seconds,
            max_duration_seconds=step.request.max_duration_seconds,
            grace_seconds=step.request.grace_seconds or 30,
            report=step.request.report,
            search_attributes=self.search_attributes,
            records_stay=self.records_stay,
        )

    @activity.defn
    async def add_workflow_id(self, step: RegisterWorkflow) -> Counted:
        await self._noted("add_workflow_id", step)
        return Counted(count=1)

    @activity.defn
    async def run_scheduled_crawler(self, step: RunInput) -> DeploymentOutcome:
        await self._noted("run_scheduled_crawler", step)
        return self.deployments()

    @activity.defn
    async def run_onetime_crawler(self, step: RunInput) -> DeploymentOutcome:
        await self._noted("run_onetime_crawler", step)
        return self.deployments()

    @activity.defn
    async def get_main_job_status(self, step: RunInput) -> MainJobStatus:
        await self._noted("get_main_job_status", step)
        return self.statuses()

    @activity.defn
    async def update_run_started(self, step: StartRun) -> RunMoment:
        await self._noted("update_run_started", step)
        return RunMoment(status=RunStatus.PROCESSING, at=datetime.now(UTC))

    @activity.defn
    async def get_active_running_tasks(self, step: RunInput) -> ActiveTasks:
        self.looks += 1
        await self._noted("get_active_running_tasks", step)
        return ActiveTasks(by_status={TaskStatus.RUNNING: "0"}, nudge=self.looks, intent=self.intent(self.looks))

    @activity.defn
    async def get_history_statuses_to_sync(self, step: LookAt) -> Differences:
        await self._noted("get_history_statuses_to_sync", step)
        changes = self.changes(self.looks)
        return Differences(
            known=self.known(self.looks),
            more=self.more(self.looks),
            recheck_seconds=self.recheck(self.looks),
            unwanted=self.unwanted(self.looks),
            removable=self.removable(self.looks),
            leaving=self.leaving(self.looks),
            saturated=self.saturated(self.looks),
            suspended=self.suspended(self.looks),
            seconds=self.work(self.looks),
            changes=changes,
            evidence=to_ranges(change.task for change in changes if change.status.is_over),
        )

    @activity.defn
    async def get_bulk_task_history_data(self, step: EvidenceRequest) -> EvidencePage:
        await self._noted("get_bulk_task_history_data", step)
        first, *rest = from_ranges(step.tasks)
        return EvidencePage(items=[TaskEvidence(task=first, attempt=1, log_tail=self.log_tail)], rest=to_ranges(rest))

    @activity.defn
    async def reconcile_tasks(self, step: EvidenceWrite) -> RowsWritten:
        await self._noted("reconcile_tasks", step)
        return RowsWritten(written=len(step.items))

    @activity.defn
    async def sync_statuses(self, step: StatusWrite) -> RowsWritten:
        await self._noted("sync_statuses", step)
        stale = self.stale(self.looks)
        return RowsWritten(written=len(step.changes) - stale, stale=stale)

    @activity.defn
    async def count_alive_tasks(self, step: CloseLook) -> AliveTasks:
        await self._noted("count_alive_tasks", step)
        return AliveTasks(queued=0, pending=0, active=self.alive(self.looks))

    @activity.defn
    async def remove_jobs(self, step: RemoveJobs) -> Removal:
        await self._noted("remove_jobs", step)
        return self.removals()

    @activity.defn
    async def update_run_status(self, step: CloseRun) -> RunOutcome:
        await self._noted("update_run_status", step)
        stopped = "k8_stop_task" in self.names and self.stopped
        reason = step.reason or ("stopped" if stopped else "all_succeeded")
        status = RunStatus.COMPLETED if reason == "all_succeeded" else RunStatus.FAILED
        return RunOutcome(run_id=7, run_uid=self.run.run_uid, status=status, reason=reason, tasks={})

    @activity.defn
    async def add_cancellation_log_to_db(self, step: LogCancellation) -> Counted:
        await self._noted("add_cancellation_log_to_db", step)
        return Counted(count=1)

    @activity.defn
    async def cancel_queued_tasks(self, step: CloseRun) -> Counted:
        await self._noted("cancel_queued_tasks", step)
        return Counted(count=0)

    @activity.defn
    async def note_stop_phase(self, step: NotePhase) -> Counted:
        await self._noted("note_stop_phase", step)
        return Counted(count=1)

    @activity.defn
    async def take_over_run(self, step: TakeOver) -> TakenOver:
        await self._noted("take_over_run", step)
        return self.taken(step)

    @activity.defn
    async def hand_over_run(self, step: TakeOver) -> Counted:
        await self._noted("hand_over_run", step)
        return Counted(count=1)

    @activity.defn
    async def hold_limits(self, step: HoldLimits) -> Clock:
        await self._noted("hold_limits", step)
        if (known := self.hold(step)) is not None:
            self.clock = known
            return known
        since, now = self.clock.held_since, activity.info().scheduled_time
        held = (now - since).total_seconds() if since else 0
        total = self.clock.held_seconds + held
        self.clock = Clock(held_seconds=total, held_since=now if step.held else None, changes=step.number)
        return self.clock

    @activity.defn
    async def cancel_execution(self, step: OwnExecution) -> Counted:
        await self._noted("cancel_execution", step)
        address = activity.client().service_client.config.target_host
        engine = Engine({"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": os.devnull}, "any")
        await engine.cancel(step.workflow_id, step.temporal_run_id)
        return Counted(count=1)

    @activity.defn
    async def k8_stop_task(self, step: StopTasks) -> StopReport:
        await self._noted("k8_stop_task", step)
        return StopReport(asked=1, rest="" if step.tasks else "500-600")

    @activity.defn
    async def k8_stop_pod(self, step: StopTasks) -> StopReport:
        await self._noted("k8_stop_pod", step)
        return StopReport(asked=1)

    @activity.defn
    async def k8_stop_unwanted(self, step: StopTasks) -> StopReport:
        await self._noted("k8_stop_unwanted", step)
        return StopReport(asked=1)

    @activity.defn
    async def signal_pusher_started(self, step: Notify) -> Counted:
        await self._noted("signal_pusher_started", step)
        return Counted(count=1)

    @activity.defn
    async def signal_pusher_progress(self, step: Notify) -> Counted:
        await self._noted("signal_pusher_progress", step)
        return Counted(count=1)

    @activity.defn
    async def signal_pusher_stopped(self, step: Notify) -> Counted:
        await self._noted("signal_pusher_stopped", step)
        return Counted(count=1)

    @activity.defn
    async def signal_pusher_finished(self, step: Notify) -> Counted:
        await self._noted("signal_pusher_finished", step)
        return Counted(count=1)

    @activity.defn
    async def begin_audit(self, step: AuditRequest) -> AuditRef:
        await self._noted("begin_audit", step)
        return AuditRef(audit_uid="audit", began_at=activity.info().scheduled_time, repair=step.repair)

    @activity.defn
    async def audit_runs(self, step: AuditStep) -> AuditPage:
        await self._noted("audit_runs", step)
        return self.audited(step)

    @activity.defn
    async def audit_jobs(self, step: AuditStep) -> AuditPage:
        await self._noted("audit_jobs", step)
        return self.audited(step)

    @activity.defn
    async def audit_handovers(self, step: AuditStep) -> AuditPage:
        await self._noted("audit_handovers", step)
        return self.audited(step)

    @activity.defn
    async def audit_flows(self, step: AuditStep) -> AuditPage:
        await self._noted("audit_flows", step)
        return self.audited(step)

    @activity.defn
    async def finish_audit(self, report: AuditReport) -> Counted:
        await self._noted("finish_audit", report)
        return Counted(count=0)

    @activity.defn
    async def initiate_export_signal(self, step: ExportedEnd) -> ExportSignal:
        await self._noted("initiate_export_signal", step)
        return ExportSignal(event_id="event", supporting_files="zip")

    @activity.defn
    async def export_supporting_files(self, step: ExportedEnd) -> ExportedFiles:
        await self._noted("export_supporting_files", step)
        return ExportedFiles(event_id="event-2")
