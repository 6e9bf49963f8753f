"""How does a request become a Job, once per key, whatever becomes of the answers?

The name is made of the key, so the API server itself refuses a second one. Whenever an answer leaves open whether the
Job is there, it is asked for by name, or by the next try.
"""

from dataclasses import dataclass

from crawler_lifecycle.adapters.job_request import refuse_if_late
from crawler_lifecycle.adapters.kubernetes.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.api import Api
from crawler_lifecycle.adapters.kubernetes.decoding import JOBS, Unreadable
from crawler_lifecycle.adapters.kubernetes.job_spec import Pods, job_of, labels_of
from crawler_lifecycle.adapters.kubernetes.naming import SPEC_HASH
from crawler_lifecycle.adapters.kubernetes.objects import NO_LABELS, Job
from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.domain.naming import job_name
from crawler_lifecycle.domain.reasons import ADMISSION_DENIED, CLUSTER_FORBIDS, CLUSTER_UNAVAILABLE, QUOTA
from crawler_lifecycle.errors import Conflict, LifecycleError, NotReady, Refused, TemporaryError

QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota")
DENIAL_WORDS = ("denied the request", "denied request")


@dataclass(frozen=True, slots=True)
class Deploying:
    api: Api
    pods: Pods

    def deploy(self, request: DeploymentRequest) -> Deployment:
        job = job_of(request, self.pods)
        try:
            refuse_if_late(request, self.api.longest_request)
        except TemporaryError:
            if known := self._known(request):
                return known
            raise
        try:
            made = JOBS.one(self.api.post(self.api.batch("jobs"), job))
        except Missing as error:
            raise NotReady(
                f"make the namespace {self.api.namespace}: {error.message}", cause=CLUSTER_FORBIDS
            ) from error
        except (ApiFailed, Unreadable) as error:
            if isinstance(error, ApiFailed) and not _leaves_open(error):
                raise _refusal(error) from error
            # whoever was silent is not asked again: our client would not wait for that, and know of no cause at all
            was_silent = isinstance(error, ApiFailed) and error.timed_out
            if not was_silent and (known := self._known(request)):
                return known
            raise TemporaryError(error.message, cause=CLUSTER_UNAVAILABLE) from error
        return _deployment(request, made, created=True)

    def _known(self, request: DeploymentRequest) -> Deployment | None:
        """The job of this key if it is there; Conflict if that is another one."""
        name = job_name(request.run_uid, request.task, request.attempt)
        try:
            job = JOBS.one(self.api.get(self.api.batch("jobs", name)))
        except Missing:
            return None
        except (ApiFailed, Unreadable) as error:
            what = f"whether job {name} was made is not known: {error.message}"
            raise TemporaryError(what, cause=CLUSTER_UNAVAILABLE) from error
        found, wanted = job.metadata.labels or NO_LABELS, labels_of(request)
        if found.installation != request.installation:
            raise Conflict(f"{request.key} belongs to another installation, {found.installation}")
        if (found.run_uid, found.task, found.attempt) != (request.run_uid, str(request.task), str(request.attempt)):
            raise Conflict(f"there is a job {name} that is not of {request.key}")
        if found.spec_hash != wanted[SPEC_HASH]:
            raise Conflict(f"{request.key} was deployed already, for another request")
        return _deployment(request, job, created=False)


def _deployment(request: DeploymentRequest, job: Job, *, created: bool) -> Deployment:
    return Deployment(key=request.key, job_name=job.metadata.name, job_uid=job.metadata.uid, created=created)


def _leaves_open(error: ApiFailed) -> bool:
    """409 is also what two who use up a quota at once are told, of whom one has made nothing."""
    return error.status is None or error.status in (409, 429) or error.status >= 500


def _refusal(error: ApiFailed) -> LifecycleError:
    """What an answer means that says for certain that nothing was made. What we do not know may get better."""
    if any(words in error.message for words in DENIAL_WORDS):
        return Refused(error.message, cause=ADMISSION_DENIED)
    if error.status == 403 and any(words in error.message for words in QUOTA_WORDS):
        return TemporaryError(error.message, cause=QUOTA)
    if error.status in (400, 413, 422):
        return Refused(error.message)
    return TemporaryError(error.message, cause=CLUSTER_FORBIDS if error.status in (401, 403) else CLUSTER_UNAVAILABLE)
