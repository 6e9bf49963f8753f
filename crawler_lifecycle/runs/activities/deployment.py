"""Activities for the main job: deploy the job, and see whether the job has started.

`ClaimDeployer` also serves the dispatcher: it requests the job of a claimed task and records the answer with the claim.
"""

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from temporalio import activity

from crawler_lifecycle.clusters.ports import Cluster, Deployer, KnowsItsPlace
from crawler_lifecycle.errors import (
    BadInput,
    Conflict,
    LifecycleError,
    NotFound,
    PermanentError,
    Refused,
    TemporaryError,
)
from crawler_lifecycle.limits.rules import Hold
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest, JobNamespace
from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, TaskRow, uids_of
from crawler_lifecycle.model.naming import MAIN_TASK
from crawler_lifecycle.model.reasons import (
    CLAIM_LOST,
    CLAIMED_ELSEWHERE,
    CLUSTER_UNKNOWN,
    DEPLOYMENT_REFUSED,
    JOB_CHANGED,
    LABELS_REMOVED,
    SCHEDULER_UNAVAILABLE,
)
from crawler_lifecycle.model.run_plan import RunInput, RunRef
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.activities.metrics import count_saturated
from crawler_lifecycle.runs.model import DeploymentOutcome, MainJobStatus
from crawler_lifecycle.runs.ports import Claim, Claims, Runs, RunState, Tasks
from crawler_lifecycle.runs.rules.verdict import OBSTACLES, in_words, is_saturated, verdict

# With these causes the scheduler service has deleted the new job. A look may still list the job for a moment, but no
# later try can succeed.
DELETED_AGAIN = (LABELS_REMOVED, JOB_CHANGED)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClaimDeployer:
    claims: Claims
    cluster: Cluster
    deployer: Deployer

    def deploy(self, claim: Claim) -> DeploymentOutcome:
        """Request the job of the claimed task. Return the job, or the cause why there is no job.

        For a claim with a hold, no job is requested: the job of an earlier request is found, or does not exist.
        """
        if claim.hold:
            return self._find_job(claim, claim.hold)
        try:
            deployment = self.deployer.deploy(self._with_namespace(claim.request))
        except TemporaryError as error:
            return self._record_failure(claim, error.cause or SCHEDULER_UNAVAILABLE, error.message, refused=False)
        except Conflict as error:  # the key belongs to another request: its job must not be taken
            return self._record_failure(claim, error.cause or DEPLOYMENT_REFUSED, error.message, refused=True)
        except (Refused, BadInput) as error:
            return self._resolve_refusal(claim, error)
        return self._record_job(claim, deployment)

    def _with_namespace(self, request: DeploymentRequest) -> DeploymentRequest:
        """Add the installation's namespace to the request, since a scheduler service has no database to read it from.

        A cluster without namespaces, or without a recorded namespace, leaves the request as it is.
        """
        place = self.cluster.confirm() if isinstance(self.cluster, KnowsItsPlace) else None
        if place is None:
            return request
        known = JobNamespace(name=place.namespace, uid=place.namespace_uid, cluster_uid=place.cluster_uid)
        return request.model_copy(update={"namespace": known})

    def _find_job(self, claim: Claim, hold: Hold) -> DeploymentOutcome:
        """Record the job that an earlier request has made, and queue the task again if there is certainly no job."""
        key = (claim.task, claim.request.attempt)
        look = self.cluster.look(claim.request.run_uid, [key], [claim.task])
        job = look.jobs.get(key)
        if job and job.uid and not job.is_orphan and job.phase is not JobPhase.ENDING:
            return self._record_job(claim, _deployment(claim, job))
        message = hold.message
        if look.complete and job is None:
            self.claims.put_back(claim, hold)
        else:  # the claim stays, and the next look comes after its expiry
            problem = look.problem or (job and (job.message or job.cause)) or "the job of an earlier request is ending"
            message = f"{message}; whether the task has a job is not certain yet: {problem}"
            self.claims.failed(claim, hold.cause, message, refused=False)
        return DeploymentOutcome(cause=hold.cause, message=message, held=True)

    def _resolve_refusal(self, claim: Claim, error: PermanentError) -> DeploymentOutcome:
        """Take the job if an earlier try has created the job and lost the answer; otherwise record the refusal."""
        if error.cause in DELETED_AGAIN:
            return self._record_failure(claim, error.cause, error.message, refused=True)
        request = claim.request
        key = (claim.task, request.attempt)
        look = self.cluster.look(request.run_uid, [key])
        job = look.jobs.get(key)
        if job and job.uid:
            return self._record_job(claim, _deployment(claim, job))
        has_no_job = look.complete and job is None  # otherwise the claim stays, and a try after its expiry looks again
        return self._record_failure(claim, error.cause or DEPLOYMENT_REFUSED, error.message, refused=has_no_job)

    def _record_job(self, claim: Claim, deployment: Deployment) -> DeploymentOutcome:
        """Record the job with its task. End the job if the run has to stop, or if the task no longer wants the job."""
        try:
            intent = self.claims.deployed(claim, deployment)  # None: the task is over, or at another attempt
        except NotFound:  # the run's row was deleted
            intent = None
        if intent is not Intent.RUN:  # a stop may have missed the new job, or no look would see the job
            key = (claim.task, claim.request.attempt)
            self.cluster.stop(claim.request.run_uid, [key], uids={key: deployment.job_uid})
        if intent is None:
            message = "the task continued without this job while the job was made, so the job is ended again"
            return DeploymentOutcome(cause=CLAIM_LOST, message=message)
        return DeploymentOutcome(job_id=deployment.job_uid, intent=intent)

    def _record_failure(self, claim: Claim, cause: str, message: str, *, refused: bool) -> DeploymentOutcome:
        """Record why there is no job. `refused`: there is certainly no job, and no later try can succeed."""
        self.claims.failed(claim, cause, message, refused=refused)
        return DeploymentOutcome(cause=cause, message=message, refused=refused)


def _deployment(claim: Claim, job: JobLook) -> Deployment:
    return Deployment(key=claim.request.key, job_name=job.name, job_uid=job.uid, created=False)


@dataclass(frozen=True)
class DeploymentActivities:
    runs: Runs
    tasks: Tasks
    claims: Claims
    cluster: Cluster
    claim_deployer: ClaimDeployer
    claim_for: timedelta  # time until the expiry of a claim

    @activity.defn(no_thread_cancel_exception=True)
    def run_scheduled_crawler(self, step: RunInput) -> DeploymentOutcome:
        """Deploy the main job for a run started by the clock."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def run_onetime_crawler(self, step: RunInput) -> DeploymentOutcome:
        """Deploy the main job for a run started by a person or a program."""
        return self._deploy_main(step.run)

    @activity.defn(no_thread_cancel_exception=True)
    def get_main_job_status(self, step: RunInput) -> MainJobStatus:
        """Return whether the main job runs or has run; for a waiting job, also the cause and the start of the wait."""
        began_at, run = time.monotonic(), self.runs.state(step.run)
        status = self._observe_main_job(step.run, run)
        cause = status.cause if status.known else CLUSTER_UNKNOWN
        since, saturated = self._mark_waiting(run, step.run, cause, status.message)
        problem = None if status.known else status.message
        # this stage plans no looks in advance: the workflow's pauses and nudges decide
        self.runs.mark_look(step.run, run.nudge_sent, status.known, problem, next_look_at=None)
        seconds = time.monotonic() - began_at
        return status.model_copy(
            update={"since": since, "saturated": saturated, "intent": run.intent, "seconds": seconds}
        )

    def _deploy_main(self, run: RunRef) -> DeploymentOutcome:
        """Deploy the main job, and record why the run waits if there is no job."""
        claim = self.claims.claim_main(run, f"supervisor:{run.epoch}", self.claim_for)
        if claim is None:
            return self._outcome_without_claim(run)
        if isinstance(claim, Hold):
            return DeploymentOutcome(cause=claim.cause, message=claim.message, held=True)
        outcome = self.claim_deployer.deploy(claim)
        if outcome.held:  # the claim's hold has written the cause
            return outcome
        _, saturated = self._mark_waiting(self.runs.state(run), run, outcome.cause, outcome.message)
        return outcome.model_copy(update={"saturated": saturated})

    def _mark_waiting(
        self, state: RunState, run: RunRef, cause: str | None, message: str | None
    ) -> tuple[datetime | None, str | None]:
        """Record the cause of the run's wait; None: the run does not wait.

        Return the start of the wait, and the cause again if the run is saturated by this cause, else None.
        """
        since = state.waiting_since if state.waiting_cause == cause else None
        saturated = cause if is_saturated(cause, since, datetime.now(UTC)) else None
        count_saturated(saturated, state.cluster)
        if saturated:
            message = f"{in_words(cause)}: {message}" if message else in_words(cause)
        if cause in OBSTACLES and cause != state.waiting_cause:
            logger.warning("run %s: the main job cannot start: %s: %s", run.run_id, cause, message)
        if (cause, message) == (state.waiting_cause, state.waiting_message):
            return since, saturated
        return self.runs.mark_waiting(run, cause, message), saturated

    def _outcome_without_claim(self, run: RunRef) -> DeploymentOutcome:
        """Return the result of the earlier or concurrent deployment; its claim prevented our claim."""
        row, intent = self._main_row(run), self.runs.state(run).intent
        if row.job_uid:
            return DeploymentOutcome(job_id=row.job_uid, intent=intent)
        if row.status.is_over:
            return DeploymentOutcome(cause=row.reason, refused=True, intent=intent)
        message = "another deployment of this job is under way"
        return DeploymentOutcome(cause=CLAIMED_ELSEWHERE, message=message, intent=intent)

    def _main_row(self, run: RunRef) -> TaskRow:
        return self.tasks.rows(run.run_id, [MAIN_TASK])[0]

    def _observe_main_job(self, run: RunRef, state: RunState) -> MainJobStatus:
        row = self._main_row(run)
        if row.status.is_over:
            return MainJobStatus(started=True, started_at=row.started_at)
        key = (MAIN_TASK, row.attempt)
        look = self.cluster.look(run.run_uid, [key], uids=uids_of([row]))
        job = look.jobs.get(key)
        if job is None:
            return MainJobStatus(known=look.complete, vanished=look.complete, message=look.problem)
        if job.phase is JobPhase.UNCLEAR:
            return MainJobStatus(known=False, message=job.message)
        if job.phase is JobPhase.WAITING and not self._is_given_up(run, state, row, look):
            return MainJobStatus(cause=job.cause or "waiting", message=job.message)
        return MainJobStatus(started=True, started_at=job.started_at)

    def _is_given_up(self, run: RunRef, state: RunState, row: TaskRow, look: Look) -> bool:
        """End a main job that waits too long for what will not come, such as an image. Return whether its task is over.

        In this stage the run's row and not the task's row has the cause and the start of the wait. The job is given up
        first, since it may start at any moment; the next stage ends its remains.
        """
        waiting = replace(row, cause=state.waiting_cause, cause_since=state.waiting_since)
        change = verdict(waiting, look, state.intent, datetime.now(UTC))
        if state.intent is not Intent.RUN or change is None or change.status is not TaskStatus.FAILED:
            return False
        key = row.task, row.attempt
        if key not in self.cluster.give_up(run.run_uid, [look.jobs[key]]):
            return False
        if self.tasks.sync(run, [change]) != 1:
            return False
        try:
            self.cluster.stop(run.run_uid, [key], uids=uids_of([row]))
        except LifecycleError as error:
            activity.logger.warning("run %s: the given up main job could not be ended: %s", run.run_id, error.message)
        return True
