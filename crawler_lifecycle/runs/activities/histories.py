"""Activities that write the run's row: creation, start and end."""

from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.clusters.ports import Deployer
from crawler_lifecycle.delivery.activities.flow_nudges import NO_NUDGES, FlowNudges
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import DEADLINE_EXCEEDED, MAX_DURATION
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import AcceptedRequest
from crawler_lifecycle.model.run_plan import CloseRun, Counted, RunOutcome, RunPlan
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.runs.model.deployment import RunMoment, StartRun
from crawler_lifecycle.runs.model.supervision import CreateHistory, RegisterWorkflow
from crawler_lifecycle.runs.ports.runs import NewRun, Runs, Tasks
from crawler_lifecycle.runs.rules.memory import with_memory
from crawler_lifecycle.runs.rules.outcome import outcome
from crawler_lifecycle.runs.rules.plan import NO_ABILITIES, Abilities, RunLimits, plan_of, planned

WORKFLOW_PROPERTY = "workflow_id"  # name of the property in the database


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
