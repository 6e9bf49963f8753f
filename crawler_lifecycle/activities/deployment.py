"""The main job: having it deployed, and whether it has started."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio import activity

from crawler_lifecycle.activities.deploying import Deploying
from crawler_lifecycle.activities.metrics import count_saturated
from crawler_lifecycle.contract.records import RunRecord
from crawler_lifecycle.contract.steps.deployment import DeploymentOutcome, MainJobStatus
from crawler_lifecycle.contract.steps.run import RunInput, RunRef
from crawler_lifecycle.domain.looks import JobPhase, TaskRow, uids_of
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.domain.reasons import CLUSTER_UNKNOWN
from crawler_lifecycle.domain.saturation import is_saturated
from crawler_lifecycle.ports import Claims, Cluster, Runs, Tasks

FULL = "the cluster is full"


@dataclass(frozen=True)
class DeploymentActivities:
    runs: Runs
    tasks: Tasks
    claims: Claims
    cluster: Cluster
    deploying: Deploying
    claim_for: timedelta

    @activity.defn(no_thread_cancel_exception=True)
    def run_scheduled_crawler(self, step: RunInput) -> DeploymentOutcome:
        """Has the main job of a run that time started deployed."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def run_onetime_crawler(self, step: RunInput) -> DeploymentOutcome:
        """Has the main job of a run that a person or a program started deployed."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def get_main_job_status(self, step: RunInput) -> MainJobStatus:
        """Whether the main job runs or has run; if it waits, why and since when."""
        clock, run = time.monotonic(), self.runs.current(step.run)
        status = self._main_job(step.run, self._main_row(step.run))
        cause = status.cause if status.known else CLUSTER_UNKNOWN
        since, saturated = self._waits(run, step.run, cause, status.message)
        problem = None if status.known else status.message
        self.runs.mark_look(step.run, run.nudge_sent, status.known, problem, None)
        known = {"since": since, "saturated": saturated, "intent": run.intent, "seconds": time.monotonic() - clock}
        return status.model_copy(update=known)

    def _deploy_main(self, run: RunRef) -> DeploymentOutcome:
        claim = self.claims.claim_main(run, f"supervisor:{run.epoch}", self.claim_for)
        if claim is None:
            return self._as_it_stands(run)
        outcome = self.deploying.deploy(claim)
        _, saturated = self._waits(self.runs.current(run), run, outcome.cause, outcome.message)
        return outcome.model_copy(update={"saturated": saturated})

    def _waits(
        self, known: RunRecord, run: RunRef, cause: str | None, message: str | None
    ) -> tuple[datetime | None, str | None]:
        """Since when; and the cause, if it has waited for room for long: then the run says so."""
        before = known.waiting_since if known.waiting_cause == cause else None
        saturated = count_saturated(cause if is_saturated(cause, before, datetime.now(UTC)) else None, known.cluster)
        if saturated:
            message = f"{FULL}: {message}" if message else FULL
        return self.runs.mark_waiting(run, cause, message), saturated

    def _as_it_stands(self, run: RunRef) -> DeploymentOutcome:
        row, intent = self._main_row(run), self.runs.current(run).intent
        if row.job_uid:
            return DeploymentOutcome(job_id=row.job_uid, intent=intent)
        if row.status.is_over:
            return DeploymentOutcome(cause=row.reason, refused=True, intent=intent)
        message = "another deployment of this job is under way"
        return DeploymentOutcome(cause="claimed_elsewhere", message=message, intent=intent)

    def _main_row(self, run: RunRef) -> TaskRow:
        return self.tasks.rows(run.run_id, [MAIN_TASK])[0]

    def _main_job(self, run: RunRef, row: TaskRow) -> MainJobStatus:
        if row.status.is_over:
            return MainJobStatus(started=True, started_at=row.started_at)
        key = (MAIN_TASK, row.attempt)
        look = self.cluster.look(run.run_uid, [key], uids=uids_of([row]))
        job = look.jobs.get(key)
        if job is None:
            return MainJobStatus(known=look.complete, vanished=look.complete, message=look.problem)
        if job.phase is JobPhase.UNCLEAR:
            return MainJobStatus(known=False, message=job.message)
        if job.phase is JobPhase.WAITING:
            return MainJobStatus(cause=job.cause or "waiting", message=job.message)
        return MainJobStatus(started=True, started_at=job.started_at)
