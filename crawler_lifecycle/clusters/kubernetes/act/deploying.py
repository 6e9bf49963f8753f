"""Deployment: a request becomes a single Job per key, even if answers get lost.

The Job's name comes from the key, so the API server itself refuses a second Job. Whenever an answer leaves the Job's
existence open, the Job is read by its name, now or at the next try.

The answer to a Job's creation shows how admission and the API server changed the request. A Job without our labels is
deleted again, because no list, inventory or watch would show the Job. A Job is deleted, too, if the changes may start a
second pod or lose the Job's end. A Job changed later is kept: the Job may run, and its stored uid identifies it.
"""

import logging
from dataclasses import dataclass
from typing import Any, NoReturn

from crawler_lifecycle.clusters.adapters.job_request import refuse_if_late
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of, labels_of
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import NAMED, Decoder, Unreadable
from crawler_lifecycle.clusters.kubernetes.naming import METADATA
from crawler_lifecycle.clusters.kubernetes.objects import LABELS, NO_LABELS, Labels, Metadata, Object, PodFailurePolicy
from crawler_lifecycle.errors import Conflict, LifecycleError, NotReady, Refused, TemporaryError
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.model.naming import job_name

# the API server refuses a Job with such words while a quota has no room
QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota")
# an admission webhook or policy refuses a Job with such words
DENIAL_WORDS = ("denied the request", "denied request")
OUR_LABELS = ("installation", "run_uid", "task", "attempt", "spec_hash")  # as fields of `Labels`
MEND_LABELS = (
    "something in the cluster, such as a mutating webhook, changes the labels of Jobs: "
    "exempt this namespace, or labels that begin with crawler-lifecycle/, from it"
)
# the API server refuses a request with an unknown field; by default, the field would be dropped silently
STRICT = {"fieldValidation": "Strict"}
MEND_JOBS = (
    "something in the cluster, such as a mutating webhook, a policy or a feature gate, changes Jobs: "
    "exempt this namespace from it"
)
# A Job removed by the cluster earlier after its end may be gone before the next look: looks are up to 15 minutes apart.
# A later clean-up loses at most evidence.
LEAST_SECONDS_TO_LIVE = 3600

logger = logging.getLogger(__name__)


class MadePodSpec(Object, frozen=True):
    restart_policy: str | None = None


class PodTemplate(Object, frozen=True):
    spec: MadePodSpec = MadePodSpec()


class MadeSpec(Object, frozen=True):
    """Fields of a new Job for a limit of a single pod, and for an end in sight."""

    completions: int | None = None
    backoff_limit: int | None = None
    pod_replacement_policy: str | None = None
    template: PodTemplate = PodTemplate()
    pod_failure_policy: PodFailurePolicy | None = None
    ttl_seconds_after_finished: int | None = None

    def differences(self, asked: dict[str, Any]) -> list[str]:
        """Return differences from the requested specification, if they could start a second pod or lose an end.

        Kueue may suspend the Job or give it another manager, and policies may shorten its deadline: these differences
        are no fault. A Job without a time to live waits for our removal.
        """
        values: dict[str, Any] = {
            "completions": self.completions,
            "backoffLimit": self.backoff_limit,
            "podReplacementPolicy": self.pod_replacement_policy,
            "restartPolicy": self.template.spec.restart_policy,
        }
        wanted = {**asked, "restartPolicy": asked["template"]["spec"]["restartPolicy"]}
        differing = [name for name, value in values.items() if value != wanted[name]]
        values["ttlSecondsAfterFinished"] = seconds = self.ttl_seconds_after_finished
        if seconds is not None and seconds < min(asked["ttlSecondsAfterFinished"], LEAST_SECONDS_TO_LIVE):
            differing.append("ttlSecondsAfterFinished")
        sentences = [f"{name} {values[name]} instead of {wanted[name]}" for name in differing]
        return sentences if self.pod_failure_policy else [*sentences, "no podFailurePolicy"]


class MadeJob(Object, frozen=True):
    metadata: Metadata
    spec: MadeSpec = MadeSpec()


MADE_JOBS = Decoder("Job", MadeJob)


@dataclass(frozen=True, slots=True)
class Deploying:
    api: KubernetesApi
    pods: PodSettings

    def deploy(self, request: DeploymentRequest) -> Deployment:
        """Create the request's Job, or return the Job that an earlier try created, even if the claim has expired.

        Raise Refused or Conflict if no later try can succeed, TemporaryError if a later try may succeed, and NotReady
        without the namespace.
        """
        job = job_of(request, self.pods)
        try:
            refuse_if_late(request, takes=self.api.longest_request)
        except TemporaryError:
            if existing := self._existing_deployment(request):
                return existing
            raise
        try:
            created = _made_job(self.api.post(self.api.jobs_path(), job, STRICT), request)
        except Missing as error:
            raise NotReady(
                f"make the namespace {self.api.namespace}: {error.message}", cause=reasons.CLUSTER_FORBIDS
            ) from error
        except (ApiFailed, Unreadable) as error:
            if isinstance(error, ApiFailed) and not _may_have_created_job(error):
                raise _refusal(error) from error
            # no second request to a silent server: our caller would time out first, and learn no cause
            was_silent = isinstance(error, ApiFailed) and error.timed_out
            if not was_silent and (existing := self._existing_deployment(request)):
                return existing
            raise TemporaryError(error.message, cause=reasons.CLUSTER_UNAVAILABLE) from error
        if differing_labels := _differing_labels(created.metadata.labels or NO_LABELS, request):
            labels = ", ".join(LABELS[label] for label in differing_labels)
            self._delete_and_refuse(
                created.metadata, f"without its label {labels}", MEND_LABELS, reasons.LABELS_REMOVED
            )
        if differences := created.spec.differences(job["spec"]):
            self._delete_and_refuse(created.metadata, f"with {', '.join(differences)}", MEND_JOBS, reasons.JOB_CHANGED)
        return _deployment(request, created.metadata, created=True)

    def _existing_deployment(self, request: DeploymentRequest) -> Deployment | None:
        """Return the key's job, or None if no such job exists. A label that is missing by now is no objection.

        Raise Conflict if a label shows another request, TemporaryError if the job cannot be read or is being deleted.
        """
        name = job_name(request.run_uid, request.task, request.attempt)
        try:
            job = _metadata_of(self.api.get(self.api.jobs_path(name), accept=METADATA), request)
        except Missing:
            return None
        except (ApiFailed, Unreadable) as error:
            problem = f"whether job {name} was made is not known: {error.message}"
            raise TemporaryError(problem, cause=reasons.CLUSTER_UNAVAILABLE) from error
        if job.deletion_timestamp is not None:
            raise TemporaryError(
                f"job {name} is being deleted: its name is free when it is gone", cause=reasons.JOB_LEAVING
            )
        present = job.labels or NO_LABELS
        edited = {label for label in _differing_labels(present, request) if getattr(present, label) is not None}
        if "installation" in edited:
            raise Conflict(f"{request.key} belongs to another installation, {present.installation}")
        if edited & {"run_uid", "task", "attempt"}:
            raise Conflict(f"there is a job {name} that is not of {request.key}")
        if "spec_hash" in edited:
            raise Conflict(f"{request.key} was deployed already, for another request")
        return _deployment(request, job, created=False)

    def _delete_and_refuse(self, job: Metadata, how: str, remedy: str, cause: str) -> NoReturn:
        """Delete exactly the given Job, and raise Refused, or TemporaryError if the Job could not be deleted.

        The Job's name holds the run's uid, so the Job is ours.
        """
        options = {"propagationPolicy": "Background"}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": job.uid}, **options}
        problem = f"job {job.name} came {how}"
        try:
            self.api.delete(self.api.jobs_path(job.name), body, options)
        except Missing:
            pass
        except ApiFailed as error:
            raise TemporaryError(f"{problem}, and is not deleted yet: {error.message}", cause=cause) from error
        raise Refused(f"{problem}, and is deleted again: {remedy}", cause=cause)


def _made_job(body: bytes, request: DeploymentRequest) -> MadeJob:
    """Return the new Job. Raise Unreadable if the answer holds another object."""
    job = MADE_JOBS.item(body)
    _check_name(job.metadata, request)
    return job


def _metadata_of(body: bytes, request: DeploymentRequest) -> Metadata:
    """Return the Job's metadata. Raise Unreadable if the answer holds another object."""
    metadata = NAMED.item(body).metadata
    _check_name(metadata, request)
    return metadata


def _check_name(metadata: Metadata, request: DeploymentRequest) -> None:
    if metadata.name != job_name(request.run_uid, request.task, request.attempt) or not metadata.uid:
        raise Unreadable(f"the API server's answer is not the job of {request.key}")


def _differing_labels(present: Labels, request: DeploymentRequest) -> list[str]:
    """Return our labels whose value is missing or is not the request's value."""
    wanted = labels_of(request)
    return [label for label in OUR_LABELS if getattr(present, label) != wanted[LABELS[label]]]


def _deployment(request: DeploymentRequest, job: Metadata, *, created: bool) -> Deployment:
    return Deployment(key=request.key, job_name=job.name, job_uid=job.uid, created=created)


def _may_have_created_job(error: ApiFailed) -> bool:
    """Return whether the Job may exist in spite of the error.

    A 409 does not prove that the Job exists: of two requests that use up a quota at once, the refused request gets 409.
    """
    return error.status is None or error.status in (409, 429) or error.status >= 500


def _refusal(error: ApiFailed) -> LifecycleError:
    """Return the error for an answer that proves that no Job exists.

    Only a denial by admission and an invalid Job are final; any other obstacle may go away, and gives a TemporaryError.
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
