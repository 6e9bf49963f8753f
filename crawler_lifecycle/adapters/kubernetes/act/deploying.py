"""Deployment: a request becomes a single Job per key, even if answers get lost.

The Job's name comes from the key, so the API server itself refuses a second Job. Whenever an answer leaves the Job's
existence open, the Job is read by its name, now or at the next try.

A new Job that lacks our labels in the answer to its creation is deleted again, because no list, inventory or watch
would show the Job. A Job whose labels go missing later is kept: the Job may run, and its uid on record identifies it.
"""

import logging
from dataclasses import dataclass
from typing import NoReturn

from crawler_lifecycle.adapters.job_request import refuse_if_late
from crawler_lifecycle.adapters.kubernetes.act.job_spec import Pods, job_of, labels_of
from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import NAMED, Unreadable
from crawler_lifecycle.adapters.kubernetes.naming import METADATA
from crawler_lifecycle.adapters.kubernetes.objects import LABELS, NO_LABELS, Labels, Metadata
from crawler_lifecycle.contract.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.domain import reasons
from crawler_lifecycle.domain.naming import job_name
from crawler_lifecycle.errors import Conflict, LifecycleError, NotReady, Refused, TemporaryError

QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota")
DENIAL_WORDS = ("denied the request", "denied request")
OUR_LABELS = ("installation", "run_uid", "task", "attempt", "spec_hash")  # as fields of `Labels`
MEND_LABELS = (
    "something in the cluster, such as a mutating webhook, changes the labels of Jobs: "
    "exempt this namespace, or labels that begin with crawler-lifecycle/, from it"
)

logger = logging.getLogger(__name__)


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
            created_job = _metadata_of(self.api.post(self.api.jobs_path(), job), request)
        except Missing as error:
            raise NotReady(
                f"make the namespace {self.api.namespace}: {error.message}", cause=reasons.CLUSTER_FORBIDS
            ) from error
        except (ApiFailed, Unreadable) as error:
            if isinstance(error, ApiFailed) and not _leaves_open(error):
                raise _refusal(error) from error
            # no second request to a silent server: our caller would time out first, and learn no cause
            was_silent = isinstance(error, ApiFailed) and error.timed_out
            if not was_silent and (known := self._known(request)):
                return known
            raise TemporaryError(error.message, cause=reasons.CLUSTER_UNAVAILABLE) from error
        if changed := _changed_labels(created_job.labels or NO_LABELS, request):
            self._take_back(created_job, changed)
        return _deployment(request, created_job, created=True)

    def _known(self, request: DeploymentRequest) -> Deployment | None:
        """Return the key's job, if present. Raise Conflict if the job is from another request, TemporaryError while a
        job with its name is being deleted.
        """
        name = job_name(request.run_uid, request.task, request.attempt)
        try:
            job = _metadata_of(self.api.get(self.api.jobs_path(name), accept=METADATA), request)
        except Missing:
            return None
        except (ApiFailed, Unreadable) as error:
            what = f"whether job {name} was made is not known: {error.message}"
            raise TemporaryError(what, cause=reasons.CLUSTER_UNAVAILABLE) from error
        if job.deletion_timestamp is not None:
            raise TemporaryError(
                f"job {name} is being deleted: its name is free when it is gone", cause=reasons.JOB_LEAVING
            )
        present = job.labels or NO_LABELS
        edited = {label for label in _changed_labels(present, request) if getattr(present, label) is not None}
        if "installation" in edited:
            raise Conflict(f"{request.key} belongs to another installation, {present.installation}")
        if edited & {"run_uid", "task", "attempt"}:
            raise Conflict(f"there is a job {name} that is not of {request.key}")
        if "spec_hash" in edited:
            raise Conflict(f"{request.key} was deployed already, for another request")
        return _deployment(request, job, created=False)

    def _take_back(self, job: Metadata, changed: list[str]) -> NoReturn:
        """Delete exactly the given Job, and raise Refused. Its name holds the run's uid, so the Job is ours."""
        options = {"propagationPolicy": "Background"}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": job.uid}, **options}
        lost = f"job {job.name} came without its label {', '.join(LABELS[label] for label in changed)}"
        try:
            self.api.delete(self.api.jobs_path(job.name), body, options)
        except Missing:
            pass
        except ApiFailed as error:
            raise TemporaryError(
                f"{lost}, and is not deleted yet: {error.message}", cause=reasons.LABELS_REMOVED
            ) from error
        raise Refused(f"{lost}, and is deleted again: {MEND_LABELS}", cause=reasons.LABELS_REMOVED)


def _metadata_of(body: bytes, request: DeploymentRequest) -> Metadata:
    metadata = NAMED.item(body).metadata
    if metadata.name != job_name(request.run_uid, request.task, request.attempt) or not metadata.uid:
        raise Unreadable(f"the API server's answer is not the job of {request.key}")
    return metadata


def _changed_labels(present: Labels, request: DeploymentRequest) -> list[str]:
    wanted = labels_of(request)
    return [label for label in OUR_LABELS if getattr(present, label) != wanted[LABELS[label]]]


def _deployment(request: DeploymentRequest, job: Metadata, *, created: bool) -> Deployment:
    return Deployment(key=request.key, job_name=job.name, job_uid=job.uid, created=created)


def _leaves_open(error: ApiFailed) -> bool:
    """Return whether the Job may exist in spite of the error.

    Two requests that use up a quota at once get a 409 too, although the refused request made no Job.
    """
    return error.status is None or error.status in (409, 429) or error.status >= 500


def _refusal(error: ApiFailed) -> LifecycleError:
    """Return the error for an answer that proves that no Job exists. An unknown refusal is temporary: it may get
    better.
    """
    if any(words in error.message for words in DENIAL_WORDS):
        return Refused(error.message, cause=reasons.ADMISSION_DENIED)
    if error.status == 403 and any(words in error.message for words in QUOTA_WORDS):
        return TemporaryError(error.message, cause=reasons.QUOTA)
    if error.status in (400, 413, 422):
        return Refused(error.message)
    return TemporaryError(
        error.message, cause=reasons.CLUSTER_FORBIDS if error.status in (401, 403) else reasons.CLUSTER_UNAVAILABLE
    )
