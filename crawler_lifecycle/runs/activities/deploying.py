"""Deployment of a claimed task, for workers and dispatcher: request the job and record the answer with the claim."""

from dataclasses import dataclass

from crawler_lifecycle.clusters.ports import Cluster, Deployer, KnowsItsPlace
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, PermanentError, Refused, TemporaryError
from crawler_lifecycle.limits.rules.rooms import Hold
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest, JobNamespace
from crawler_lifecycle.model.looks import JobLook, JobPhase
from crawler_lifecycle.model.reasons import (
    CLAIM_LOST,
    DEPLOYMENT_REFUSED,
    JOB_CHANGED,
    LABELS_REMOVED,
    SCHEDULER_UNAVAILABLE,
)
from crawler_lifecycle.model.states import Intent
from crawler_lifecycle.runs.model.deployment import DeploymentOutcome
from crawler_lifecycle.runs.ports.runs import Claim, Claims

# With these causes the scheduler service has deleted the new job. A look may still list the job for a moment, but no
# later try can succeed.
DELETED_AGAIN = (LABELS_REMOVED, JOB_CHANGED)


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
