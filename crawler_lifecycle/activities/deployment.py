"""The main job: having it deployed, and whether it has started."""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import DeploymentOutcome, MainJobStatus, RunRef, ToRun
from crawler_lifecycle.domain.looks import JobPhase, TaskRow
from crawler_lifecycle.domain.naming import MAIN_TASK
from crawler_lifecycle.errors import BadInput, Conflict, Refused, TemporaryError
from crawler_lifecycle.ports import Claim, Claims, Cluster, Deployer, Histories, Tasks

SCHEDULER_UNAVAILABLE = "scheduler_unavailable"
DEPLOYMENT_REFUSED = "deployment_refused"


@dataclass(frozen=True)
class DeploymentActivities:
    histories: Histories
    tasks: Tasks
    claims: Claims
    cluster: Cluster
    deployer: Deployer
    claim_for: timedelta

    @activity.defn(no_thread_cancel_exception=True)
    def run_scheduled_crawler(self, step: ToRun) -> DeploymentOutcome:
        """Has the main job of a run that time started deployed."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def run_onetime_crawler(self, step: ToRun) -> DeploymentOutcome:
        """Has the main job of a run that a person or a program started deployed."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def get_main_job_status(self, step: ToRun) -> MainJobStatus:
        """Whether the main job runs or has run; if it waits, why and since when."""
        row = self._main_row(step.run)
        status = self._main_job(step.run, row)
        if not status.known:
            return status
        since = self.histories.mark_waiting(step.run, status.cause, status.message)
        intent = self.histories.get(step.run.run_id).intent
        return status.model_copy(update={"since": since, "intent": intent})

    def _deploy_main(self, run: RunRef) -> DeploymentOutcome:
        claim = self.claims.claim_main(run, f"supervisor:{run.epoch}", self.claim_for)
        if claim is None:
            return self._as_it_stands(run)
        try:
            deployment = self.deployer.deploy(claim.request)
        except TemporaryError as error:
            return self._not_deployed(run, claim, SCHEDULER_UNAVAILABLE, error.message, refused=False)
        except (Refused, BadInput, Conflict) as error:
            return self._not_deployed(run, claim, DEPLOYMENT_REFUSED, error.message, refused=True)
        intent = self.claims.deployed(claim, deployment)
        if intent is not Intent.RUN:  # the stop may have listed the jobs before this one was there
            self.cluster.stop(run.run_uid, [(claim.task, claim.request.attempt)])
        self.histories.mark_waiting(run, None, None)
        return DeploymentOutcome(job_id=deployment.job_uid, intent=intent)

    def _as_it_stands(self, run: RunRef) -> DeploymentOutcome:
        row, intent = self._main_row(run), self.histories.get(run.run_id).intent
        if row.job_uid:
            return DeploymentOutcome(job_id=row.job_uid, intent=intent)
        if row.status.is_over:
            return DeploymentOutcome(cause=row.reason, refused=True, intent=intent)
        message = "another deployment of this job is under way"
        return DeploymentOutcome(cause="claimed_elsewhere", message=message, intent=intent)

    def _not_deployed(self, run: RunRef, claim: Claim, cause: str, message: str, *, refused: bool) -> DeploymentOutcome:
        self.claims.failed(claim, cause, message, refused=refused)
        self.histories.mark_waiting(run, cause, message)
        return DeploymentOutcome(cause=cause, message=message, refused=refused)

    def _main_row(self, run: RunRef) -> TaskRow:
        return self.tasks.rows(run.run_id, [MAIN_TASK])[0]

    def _main_job(self, run: RunRef, row: TaskRow) -> MainJobStatus:
        if row.status.is_over:
            return MainJobStatus(started=True)
        look = self.cluster.look(run.run_uid)
        job = look.jobs.get((MAIN_TASK, row.attempt))
        if job is None:
            return MainJobStatus(known=look.complete, vanished=look.complete, message=look.problem)
        if job.phase is JobPhase.UNCLEAR:
            return MainJobStatus(known=False, message=job.message)
        if job.phase is JobPhase.WAITING:
            return MainJobStatus(cause=job.cause or "waiting", message=job.message)
        return MainJobStatus(started=True)
