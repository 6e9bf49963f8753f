"""How does a claim become a job? The same for the main job and for all others."""

from dataclasses import dataclass

from crawler_lifecycle.contract.states import Intent
from crawler_lifecycle.contract.steps import DeploymentOutcome
from crawler_lifecycle.domain.reasons import DEPLOYMENT_REFUSED, SCHEDULER_UNAVAILABLE
from crawler_lifecycle.errors import BadInput, Conflict, Refused, TemporaryError
from crawler_lifecycle.ports import Claim, Claims, Cluster, Deployer


@dataclass(frozen=True)
class Deploying:
    claims: Claims
    cluster: Cluster
    deployer: Deployer

    def deploy(self, claim: Claim) -> DeploymentOutcome:
        try:
            deployment = self.deployer.deploy(claim.request)
        except TemporaryError as error:
            return self._not_deployed(claim, error.cause or SCHEDULER_UNAVAILABLE, error.message, refused=False)
        except (Refused, BadInput, Conflict) as error:
            cause = error.cause or DEPLOYMENT_REFUSED
            return self._not_deployed(claim, cause, error.message, refused=self._is_absent(claim))
        intent = self.claims.deployed(claim, deployment)
        if intent is not Intent.RUN:  # the stop may have listed the jobs before this one was there
            self.cluster.stop(claim.request.run_uid, [(claim.task, claim.request.attempt)])
        return DeploymentOutcome(job_id=deployment.job_uid, intent=intent)

    def _is_absent(self, claim: Claim) -> bool:
        """An earlier try may have made the job although its answer was lost: then a refusal does not end the task."""
        job = (claim.task, claim.request.attempt)
        look = self.cluster.look(claim.request.run_uid, [job])
        return look.complete and job not in look.jobs

    def _not_deployed(self, claim: Claim, cause: str, message: str, *, refused: bool) -> DeploymentOutcome:
        self.claims.failed(claim, cause, message, refused=refused)
        return DeploymentOutcome(cause=cause, message=message, refused=refused)
