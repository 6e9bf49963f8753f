"""Deployment of a claimed task, for workers and dispatcher: request the job and record the answer with the claim."""

from dataclasses import dataclass

from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest, JobNamespace
from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps.deployment import DeploymentOutcome
from crawler_lifecycle.domain.reasons import CLAIM_LOST, DEPLOYMENT_REFUSED, LABELS_REMOVED, SCHEDULER_UNAVAILABLE
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, PermanentError, Refused, TemporaryError
from crawler_lifecycle.ports import Claim, Claims, Cluster, Deployer, KnowsItsPlace


@dataclass(frozen=True)
class ClaimDeployer:
    claims: Claims
    cluster: Cluster
    deployer: Deployer

    def deploy(self, claim: Claim) -> DeploymentOutcome:
        try:
            deployment = self.deployer.deploy(self._with_namespace(claim.request))
        except TemporaryError as error:
            return self._record_failure(claim, error.cause or SCHEDULER_UNAVAILABLE, error.message, refused=False)
        except Conflict as error:  # the key belongs to another request, whose job must not be taken
            return self._record_failure(claim, error.cause or DEPLOYMENT_REFUSED, error.message, refused=True)
        except (Refused, BadInput) as error:
            return self._resolve_refusal(claim, error)
        return self._record_job(claim, deployment)

    def _with_namespace(self, request: DeploymentRequest) -> DeploymentRequest:
        """Add the installation's namespace to the request: a scheduler service has no database with the namespace."""
        place = self.cluster.confirm() if isinstance(self.cluster, KnowsItsPlace) else None
        if place is None:
            return request
        known = JobNamespace(name=place.namespace, uid=place.namespace_uid, cluster_uid=place.cluster_uid)
        return request.model_copy(update={"namespace": known})

    def _resolve_refusal(self, claim: Claim, error: PermanentError) -> DeploymentOutcome:
        """Take the job if an earlier try has created the job and lost the answer; otherwise record the refusal.

        A job without the installation's labels has been deleted again by the scheduler service.
        """
        if error.cause == LABELS_REMOVED:
            return self._record_failure(claim, LABELS_REMOVED, error.message, refused=True)
        request = claim.request
        key = (claim.task, request.attempt)
        look = self.cluster.look(request.run_uid, [key])
        job = look.jobs.get(key)
        if job and job.uid:
            deployment = Deployment(key=request.key, job_name=job.name, job_uid=job.uid, created=False)
            return self._record_job(claim, deployment)
        refused = look.complete and job is None  # otherwise a job may exist: the claim expires, and a later try sees
        return self._record_failure(claim, error.cause or DEPLOYMENT_REFUSED, error.message, refused=refused)

    def _record_job(self, claim: Claim, deployment: Deployment) -> DeploymentOutcome:
        try:
            intent = self.claims.deployed(claim, deployment)
        except NotFound:  # the run's row is gone: no look will ever see the job
            intent = None
        if intent is not Intent.RUN:  # the stop may have listed the run's jobs before the new job existed
            key = (claim.task, claim.request.attempt)
            self.cluster.stop(claim.request.run_uid, [key], uids={key: deployment.job_uid})
        if intent is None:
            message = "the task went on without this job while it was made, so the job is ended again"
            return DeploymentOutcome(cause=CLAIM_LOST, message=message)
        return DeploymentOutcome(job_id=deployment.job_uid, intent=intent)

    def _record_failure(self, claim: Claim, cause: str, message: str, *, refused: bool) -> DeploymentOutcome:
        self.claims.failed(claim, cause, message, refused=refused)
        return DeploymentOutcome(cause=cause, message=message, refused=refused)
