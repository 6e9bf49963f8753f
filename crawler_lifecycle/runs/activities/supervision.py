"""Activities that write the run's row for its supervisor: creation, take-over, start, limit clock, and end."""

import asyncio
import logging
from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.clusters.ports import Cluster, Deployer
from crawler_lifecycle.delivery.activities.notices import NO_NUDGES, FlowNudges
from crawler_lifecycle.delivery.ports import Supervisors
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.looks import uids_of
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import BY_A_STOP, DEADLINE_EXCEEDED, MAX_DURATION
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.run_plan import Clock, CloseRun, Counted, RunOutcome, RunPlan
from crawler_lifecycle.model.states import ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.runs.model import (
    CreateHistory,
    HoldLimits,
    OwnExecution,
    RegisterWorkflow,
    RunMoment,
    StartRun,
    TakenOver,
    TakeOver,
)
from crawler_lifecycle.runs.ports import NewRun, Runs, SupervisorExecution, Tasks
from crawler_lifecycle.runs.rules.outcome import in_a_sentence, outcome
from crawler_lifecycle.runs.rules.plan import NO_ABILITIES, Abilities, RunLimits, plan_of, planned, with_memory

WORKFLOW_PROPERTY = "workflow_id"  # name of the property in the database

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HistoryActivities:
    runs: Runs
    tasks: Tasks
    deployer: Deployer
    limits: RunLimits
    abilities: Abilities = NO_ABILITIES
    nudges: FlowNudges = NO_NUDGES

    @activity.defn(no_thread_cancel_exception=True)
    def create_history_id(self, step: CreateHistory) -> RunPlan:
        """Insert the run's row, unless an earlier try or an earlier execution of the workflow has inserted the row.

        Raise BadInput if the run of the earlier execution is over.
        """
        run = self.runs.find(step.workflow_id, step.first_execution_run_id) or self._create_run(step)
        if run.status.is_over:
            reopen = f"`crawlctl resume {run.run_id} --reopen`"
            raise BadInput(
                "workflow",
                f"this chain of executions has made run {run.run_id} already, which is over ({run.status}): "
                "a reset, retry or cron of Temporal makes no second run. "
                f"To crawl again, use {reopen if run.status is RunStatus.FAILED else 'a start of its own'}",
            )
        return plan_of(run, self.limits, self.abilities)

    def _create_run(self, step: CreateHistory) -> RunRecord:
        entry = self.deployer.crawler(step.request.crawler)
        request = planned(step.request, entry, self.limits)
        return self.runs.create(_new_run(request, with_memory(entry, request.memory_factor), step))

    @activity.defn(no_thread_cancel_exception=True)
    def add_workflow_id(self, step: RegisterWorkflow) -> Counted:
        """Register the id of the run's workflow, for stops and resumes."""
        self.runs.set_property(step.run, WORKFLOW_PROPERTY, step.workflow_id)
        return Counted(count=1)

    @activity.defn(no_thread_cancel_exception=True)
    def update_run_started(self, step: StartRun) -> RunMoment:
        """Bring the run from INITIALIZING to PROCESSING, never backwards, and record when the main job started."""
        run = self.runs.mark_started(step.run, step.started_at)
        return RunMoment(status=run.status, at=run.started_at or run.begun_at)

    @activity.defn(no_thread_cancel_exception=True)
    def update_run_status(self, step: CloseRun) -> RunOutcome:
        """Give the run its final status and reason, unless an end is already recorded. Return the recorded end."""
        run = self.runs.current(step.run)
        main_status = self.tasks.rows(run.run_id, [MAIN_TASK])[0].status
        gave_up = step.reason or run.reason  # a limit or a refused deployment; None: the tasks or a stop decide
        out_of_time = gave_up == MAX_DURATION and self._has_task_ended_by_deadline(run)
        allowed = run.request.allowed_failures
        status, reason = outcome(run.tasks, run.intent, allowed, main_status, gave_up, out_of_time=out_of_time)
        closed = self.runs.close(step.run, status, reason)
        if closed.status is RunStatus.FAILED and closed.reason not in BY_A_STOP:
            ended = in_a_sentence(closed.status, closed.reason or reason)
            logger.warning("run %s of crawler %s: %s", closed.run_id, closed.crawler, ended)
        self.nudges.tell(closed.request.flow)
        return RunOutcome(
            run_id=closed.run_id,
            run_uid=closed.run_uid,
            status=closed.status,
            reason=closed.reason or reason,
            tasks=closed.tasks,
        )

    def _has_task_ended_by_deadline(self, run: RunRecord) -> bool:
        """Return whether the cluster ended a task's job at the job's own deadline, which equals `max_duration`."""
        failed = self.tasks.by_status(run.run_id).get(TaskStatus.FAILED, [])
        return any(row.reason == DEADLINE_EXCEEDED for row in self.tasks.rows(run.run_id, failed))


def _new_run(request: AcceptedRequest, entry: Crawler, step: CreateHistory) -> NewRun:
    return NewRun(
        request=request,
        entry=entry,
        tasks=request.tasks or entry.processes,
        workflow_id=step.workflow_id,
        first_execution_run_id=step.first_execution_run_id,
    )


@dataclass(frozen=True)
class SupervisionActivities:
    runs: Runs
    tasks: Tasks
    cluster: Cluster
    supervisors: Supervisors
    limits: RunLimits
    abilities: Abilities = NO_ABILITIES
    nudges: FlowNudges = NO_NUDGES

    @activity.defn
    async def take_over_run(self, step: TakeOver) -> TakenOver:
        """Make this execution the run's supervisor. If the run belongs to another workflow id, only return that id.

        Raise an error if the run may not be resumed or reopened.
        """
        run = await asyncio.to_thread(self.runs.get, step.run_id)
        if run.crawler != step.crawler:
            raise BadInput("crawler", f"run {run.run_id} is a run of {run.crawler!r}, not of {step.crawler!r}")
        if run.workflow_id == step.workflow_id:
            taken_over = await asyncio.to_thread(self._take_over, run, step)
            if step.reopen:
                await self.nudges.send(run.request.flow)
            return taken_over
        # The run's own workflow continues without a caller, so our caller has to learn of a refusal now.
        _refuse_to_resume_an_exported_end(run, step)
        if step.reopen:
            await self._refuse_unless_reopenable(run)
        return TakenOver(status=run.status, supervised_by=run.workflow_id)

    def _take_over(self, run: RunRecord, step: TakeOver) -> TakenOver:
        """Make the execution the supervisor, and reopen the run if the request says so. Return the run's state."""
        execution = SupervisorExecution(step.workflow_id, step.temporal_run_id, step.began_at)
        if not step.reopen:
            run = self.runs.take_over(run.run_id, execution)
        else:
            if run.status.is_over:  # if not, an earlier try has reopened the run, and the run's new jobs may live
                _refuse_before_the_export(run)
                self._refuse_while_jobs_live(run)
            run = self.runs.reopen(run.run_id, execution)
        is_over, is_stopped = run.status.is_over, run.intent is not Intent.RUN
        clock = self.runs.limit_clock(run.run_id)
        return TakenOver(
            plan=plan_of(run, self.limits, self.abilities, clock),
            status=run.status,
            intent=run.intent,
            started_at=run.started_at,
            exported=run.export_state is ExportState.DONE,
            owed=self.runs.owed_exports(run.run_id) if is_over else None,
            gave_up=None if is_over else run.reason,  # an open run has a reason only after giving up, such as a limit
            stopped_at=self.runs.stop_asked_at(run.run_id) if is_stopped else None,
            jobs_asked_at=self.runs.jobs_asked_at(run.run_id) if is_stopped else None,
        )

    @activity.defn(no_thread_cancel_exception=True)
    def hold_limits(self, step: HoldLimits) -> Clock:
        """Stop or restart the run's limit clock from now on. Return the clock according to the run's timeline."""
        return self.runs.hold_limits(step.run, step.number, held=step.held)

    @activity.defn
    async def hand_over_run(self, step: TakeOver) -> Counted:
        """Resume the run under its own workflow id; only an execution with another workflow id calls this."""
        run = await asyncio.to_thread(self.runs.get, step.run_id)
        await self.supervisors.go_on(run, reopen=step.reopen)
        return Counted(count=1)

    @activity.defn
    async def cancel_execution(self, step: OwnExecution) -> Counted:
        """Cancel our own execution, because Temporal closes only a cancelled execution as cancelled."""
        await self.supervisors.cancel(step.workflow_id, step.temporal_run_id)
        return Counted(count=1)

    async def _refuse_unless_reopenable(self, run: RunRecord) -> None:
        """Raise Conflict unless the run is FAILED and exported, and its workflow is closed.

        An open workflow would never read the request to reopen.
        """
        subject = f"run {run.run_id} belongs to workflow {run.workflow_id}"
        if run.status is not RunStatus.FAILED:
            raise Conflict(f"{subject} and is {run.status}: only a run that ended FAILED is reopened")
        _refuse_before_the_export(run)
        workflow = await self.supervisors.describe(run.workflow_id)
        if workflow.is_open:
            raise Conflict(f"{subject}, which has not finished with its end: try again in a moment")

    def _refuse_while_jobs_live(self, run: RunRecord) -> None:
        """Raise Conflict unless a complete look shows no living job for the tasks' last attempts."""
        by_status = self.tasks.by_status(run.run_id)
        to_repeat = [tasks for status, tasks in by_status.items() if status is not TaskStatus.SUCCEEDED]
        rows = self.tasks.rows(run.run_id, [task for tasks in to_repeat for task in tasks])
        watched = [(row.task, row.attempt) for row in rows if row.job_uid]
        look = self.cluster.look(run.run_uid, watched, uids=uids_of(rows))
        if not look.complete:
            raise Conflict(f"run {run.run_id} cannot be reopened while the cluster cannot be seen: {look.problem}")
        living = [task for (task, _), job in look.jobs.items() if not job.gone]
        if living:
            raise Conflict(f"run {run.run_id} cannot be reopened: task {min(living)} still has a job that runs")


def _refuse_before_the_export(run: RunRecord) -> None:
    if run.export_state is ExportState.PENDING:
        raise Conflict(
            f"the end of run {run.run_id} is not exported yet: `crawlctl resume {run.run_id}` does that, then reopen it"
        )


def _refuse_to_resume_an_exported_end(run: RunRecord, step: TakeOver) -> None:
    if run.status.is_over and run.export_state is ExportState.DONE and not step.reopen:
        raise BadInput("run_id", f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to resume")
