"""Going on with a run that exists: who supervises it, and from where."""

import asyncio
from dataclasses import dataclass

from temporalio import activity

from crawler_lifecycle.contract.clock import Clock
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import ExportState, Intent, RunStatus, TaskStatus
from crawler_lifecycle.contract.steps.run import Counted
from crawler_lifecycle.contract.steps.supervision import HoldLimits, OwnExecution, TakenOver, TakeOver
from crawler_lifecycle.domain.looks import uids_of
from crawler_lifecycle.domain.plan import RunLimits, plan_of
from crawler_lifecycle.errors import BadInput, Conflict
from crawler_lifecycle.ports import Cluster, Execution, Runs, Supervisors, Tasks


@dataclass(frozen=True)
class SupervisionActivities:
    runs: Runs
    tasks: Tasks
    cluster: Cluster
    supervisors: Supervisors
    limits: RunLimits
    search_attributes: bool = False

    @activity.defn
    async def take_over_run(self, step: TakeOver) -> TakenOver:
        """Makes this workflow the run's supervisor, if the run is its own."""
        run = await asyncio.to_thread(self.runs.get, step.run_id)
        if run.crawler != step.crawler:
            raise BadInput("crawler", f"run {run.run_id} is a run of {run.crawler!r}, not of {step.crawler!r}")
        if run.workflow_id == step.workflow_id:
            return await asyncio.to_thread(self._taken_over, run, step)
        _refuse_what_is_done(run, step)
        if step.reopen:
            await self._refuse_to_reopen_what_is_open(run)
        return TakenOver(status=run.status, supervised_by=run.workflow_id)

    def _taken_over(self, run: RunRecord, step: TakeOver) -> TakenOver:
        execution = Execution(step.workflow_id, step.temporal_run_id, step.began_at)
        if step.reopen:
            if run.status.is_over:  # else it is reopened already, and its new jobs may live
                _refuse_before_hand_over(run)
                self._refuse_while_jobs_live(run)
            run = self.runs.reopen(run.run_id, execution)
        else:
            run = self.runs.take_over(run.run_id, execution)
        return TakenOver(
            plan=plan_of(
                run,
                self.limits,
                search_attributes=self.search_attributes,
                clock=self.runs.limit_clock(run.run_id),
            ),
            status=run.status,
            intent=run.intent,
            started_at=run.started_at,
            exported=run.export_state is ExportState.DONE,
            owed=self.runs.owed_exports(run.run_id) if run.status.is_over else None,
            gave_up=None if run.status.is_over else run.reason,
            stopped_at=None if run.intent is Intent.RUN else self.runs.stop_asked_at(run.run_id),
            jobs_asked_at=None if run.intent is Intent.RUN else self.runs.jobs_asked_at(run.run_id),
        )

    @activity.defn(no_thread_cancel_exception=True)
    def hold_limits(self, step: HoldLimits) -> Clock:
        """From now on the run's limits of time stand still, or go on; the timeline tells so, and is what counts."""
        return self.runs.hold_limits(step.run, step.number, held=step.held)

    @activity.defn
    async def hand_over_run(self, step: TakeOver) -> Counted:
        """Has the workflow that the run belongs to go on with it."""
        run = await asyncio.to_thread(self.runs.get, step.run_id)
        request = RunRequest(crawler=run.crawler, run_id=run.run_id, reopen=step.reopen)
        await self.supervisors.go_on(run.workflow_id, request)
        return Counted(count=1)

    @activity.defn
    async def cancel_execution(self, step: OwnExecution) -> Counted:
        """Temporal lets an execution close as cancelled only if it was itself asked to."""
        await self.supervisors.cancel(step.workflow_id, step.temporal_run_id)
        return Counted(count=1)

    async def _refuse_to_reopen_what_is_open(self, run: RunRecord) -> None:
        """An open workflow is left to itself when the run is handed over to it, and would never hear of a wish to
        reopen."""
        belongs = f"run {run.run_id} belongs to workflow {run.workflow_id}"
        if run.status is not RunStatus.FAILED:
            raise Conflict(f"{belongs} and is {run.status}: only a run that ended FAILED is reopened")
        _refuse_before_hand_over(run)
        if (await self.supervisors.describe(run.workflow_id)).is_open:
            raise Conflict(f"{belongs}, which has not finished with its end: try again in a moment")

    def _refuse_while_jobs_live(self, run: RunRecord) -> None:
        """A next attempt is only for tasks whose last one provably has no job."""
        by_status = self.tasks.by_status(run.run_id)
        again = [task for status, tasks in by_status.items() if status is not TaskStatus.SUCCEEDED for task in tasks]
        rows = self.tasks.rows(run.run_id, again)
        watched = [(row.task, row.attempt) for row in rows if row.job_uid]
        look = self.cluster.look(run.run_uid, watched, uids=uids_of(rows))
        if not look.complete:
            raise Conflict(f"run {run.run_id} cannot be reopened while the cluster cannot be seen: {look.problem}")
        if living := sorted(task for (task, _), job in look.jobs.items() if not job.gone):
            raise Conflict(f"run {run.run_id} cannot be reopened: task {living[0]} still has a job that runs")


def _refuse_before_hand_over(run: RunRecord) -> None:
    if run.export_state is ExportState.PENDING:
        what = f"the end of run {run.run_id} is not exported yet"
        raise Conflict(f"{what}: `crawlctl resume {run.run_id}` does that, then reopen it")


def _refuse_what_is_done(run: RunRecord, step: TakeOver) -> None:
    if run.status.is_over and run.export_state is ExportState.DONE and not step.reopen:
        raise BadInput("run_id", f"run {run.run_id} is over ({run.status}, {run.reason}): there is nothing to resume")
