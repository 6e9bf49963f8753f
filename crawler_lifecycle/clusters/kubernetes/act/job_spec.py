"""Job manifest for a deployment request.

The Job has a single pod, started once, because we count the attempts. Names and labels identify the run, and a hash of
the request shows whether an existing Job is the requested Job.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from crawler_lifecycle.clusters.adapters import job_request
from crawler_lifecycle.clusters.kubernetes import naming
from crawler_lifecycle.clusters.rules import DO_NOT_DISRUPT, SAFE_TO_EVICT, refusal
from crawler_lifecycle.errors import Refused
from crawler_lifecycle.model.deployment import DeploymentRequest, Resources
from crawler_lifecycle.model.naming import TENANT, checked_uid, job_name
from crawler_lifecycle.model.pod_shape import PodShape, Toleration

CONTAINER = "crawl"
FILES = "/crawl/files"  # the folder for the run's files in the container
RESULT = "/dev/termination-log"  # the kubelet copies this file into the pod's status, as the container's message
HASH_LENGTH = 40  # a label's value has at most 63 characters, so the hash is cut off
# `backoffLimit` 0 ends the Job after any failed pod; the rules change nothing about that. A rule that matches makes the
# Job controller write into the Job's condition how the pod failed. The condition is the only record after the pod is
# deleted (`observe/failure.py` reads the condition). The first rule matches a pod that the cluster itself ends, with
# any exit code. The second rule leaves out 143 (SIGTERM), 137 (SIGKILL) and 0: a queue may suspend a Job, which deletes
# its pod, and most programs then exit with one of these codes. A match would fail the suspended Job for good.
EXIT_CODES_AFTER_DELETION = [0, 137, 143]
FAILURES_TO_REMEMBER = [
    {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {
        "action": "FailJob",
        "onExitCodes": {"containerName": CONTAINER, "operator": "NotIn", "values": EXIT_CODES_AFTER_DELETION},
    },
]
# the Job controller labels the pod with its Job's uid; the program gets the uid as CRAWL_JOB_UID
UID_OF_THE_JOB = "metadata.labels['batch.kubernetes.io/controller-uid']"
# Autoscalers evict pods to empty a node. Our Jobs start no second pod, so an evicted crawl has failed. Pods ask to be
# left alone: the cluster autoscaler reads the first annotation, Karpenter the second.
STAY = {SAFE_TO_EVICT: "false", DO_NOT_DISRUPT: "true"}


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Settings that all pods in an installation share."""

    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    files_claim: str | None = None  # volume claim for the runs' files; without a claim a pod's files go with the pod
    files_group: int = 1000  # the group that may write to the volume
    longest: timedelta = timedelta(days=30)  # a job whose request has no deadline is ended after this time
    keep: timedelta = timedelta(days=7)  # the cluster removes an ended job after this time, unless we removed the job


def labels_of(request: DeploymentRequest) -> dict[str, str]:
    return {
        naming.INSTALLATION: request.installation,
        naming.RUN_UID: checked_uid(request.run_uid),
        naming.TASK: str(request.task),
        naming.ATTEMPT: str(request.attempt),
        naming.SPEC_HASH: job_request.request_hash(request)[:HASH_LENGTH],
    }


def reporting_labels(request: DeploymentRequest) -> dict[str, str]:
    """Return the labels for reports of costs: the run, its crawler, and its tenant if a label `tenant:NAME` says it."""
    tenants = (label.removeprefix(TENANT) for label in request.labels if label.startswith(TENANT))
    names = {naming.CRAWLER: request.crawler.name, naming.TENANT: next(tenants, "")}
    values = {label: naming.label_value(name) for label, name in names.items()}
    return {naming.RUN: str(request.run_id), **{label: value for label, value in values.items() if value}}


def job_of(request: DeploymentRequest, pods: PodSettings) -> dict[str, Any]:
    shape = checked_shape(request)
    labels = {**shape.labels, **reporting_labels(request), **labels_of(request)}
    not_after = request.not_after.isoformat() if request.not_after else ""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(request.run_uid, request.task, request.attempt),
            "labels": {**labels, **queue_label(shape)},
            "annotations": {naming.NOT_AFTER: not_after},
        },
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",  # no second pod starts before the first has ended
            "podFailurePolicy": {"rules": FAILURES_TO_REMEMBER},
            "activeDeadlineSeconds": request.deadline_seconds or int(pods.longest.total_seconds()),
            "ttlSecondsAfterFinished": int(pods.keep.total_seconds()),
            "template": {
                "metadata": {"labels": labels, "annotations": annotations(shape)},
                "spec": _pod(request, pods) | placement(shape),
            },
        },
    }


def _pod(request: DeploymentRequest, pods: PodSettings) -> dict[str, Any]:
    volume = {"persistentVolumeClaim": {"claimName": pods.files_claim}} if pods.files_claim else {"emptyDir": {}}
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": job_request.grace_seconds(request),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # links add a variable for every service in the namespace
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(request, pods)],
        "volumes": [{"name": "files", **volume}],
    }
    if pods.files_claim:
        # without the policy every start of a pod would walk through all runs' files
        pod["securityContext"] |= {"fsGroup": pods.files_group, "fsGroupChangePolicy": "OnRootMismatch"}
    if pods.service_account:
        pod["serviceAccountName"] = pods.service_account
    if pods.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in pods.image_pull_secrets]
    return pod


def _container(request: DeploymentRequest, pods: PodSettings) -> dict[str, Any]:
    """Return the container. Raise Refused without an image, or with texts that no program can be started with."""
    crawler = request.crawler
    if not crawler.image:
        raise Refused(f"crawler {crawler.name!r} has no image: Kubernetes runs images")
    arguments = job_request.arguments_of(request)
    environment = job_request.environment_of(request, FILES, RESULT)
    job_request.refuse_unusable_texts(environment, [*(crawler.command or [crawler.image]), *arguments])
    resources = quantities(crawler.resources)
    mount = {"name": "files", "mountPath": FILES}
    container = {
        "name": CONTAINER,
        "image": crawler.image,
        "args": [_literal(part) for part in arguments],
        "env": [{"name": name, **source} for name, source in _sources(request, environment).items()],
        "resources": {"requests": resources, "limits": resources},
        "terminationMessagePath": RESULT,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # a run must not see another run's folder in the volume
        "volumeMounts": [mount | {"subPath": request.run_uid} if pods.files_claim else mount],
    }
    if crawler.command:
        container["command"] = [_literal(part) for part in crawler.command]
    return container


def _sources(request: DeploymentRequest, environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the source of every variable's value: our text, or for the Job's uid a label of the pod."""
    return {
        **{name: {"value": _literal(value)} for name, value in environment.items()},
        "CRAWL_JOB_NAME": {"value": job_name(request.run_uid, request.task, request.attempt)},
        "CRAWL_JOB_UID": {"valueFrom": {"fieldRef": {"fieldPath": UID_OF_THE_JOB}}},
    }


def _literal(text: str) -> str:
    """Double every dollar sign: Kubernetes replaces `$(NAME)` by a value, and a doubled dollar by a plain dollar."""
    return text.replace("$", "$$")


def checked_shape(request: DeploymentRequest) -> PodShape:
    """Return the request's pod shape. Raise Refused for a value that no catalogue entry may set.

    The catalogue has the same check, but a request comes with its own copy of the entry.
    """
    shape = request.crawler.pod
    if problem := refusal(shape):
        field, reason = problem
        raise Refused(f"crawler.pod.{field}: {reason}")
    return shape


def queue_label(shape: PodShape) -> dict[str, str]:
    """Return the label that puts the Job into its queue.

    Kueue's webhook suspends a new Job with the label. The Job is not created suspended: in a cluster without Kueue, no
    controller would ever resume the Job.
    """
    return {naming.QUEUE: shape.queue} if shape.queue else {}


def annotations(shape: PodShape) -> dict[str, str]:
    """Return the pod's annotations. An entry may let autoscalers move its pods.

    A pod that Karpenter may move has no annotation for Karpenter, which reports the value "false" as a mistake.
    """
    wanted = {**STAY, **shape.annotations}
    if wanted[DO_NOT_DISRUPT] == "false":
        del wanted[DO_NOT_DISRUPT]
    return wanted


def placement(shape: PodShape) -> dict[str, Any]:
    """Return the fields of a pod that choose its node and its priority; only fields that the entry sets."""
    fields = {
        "nodeSelector": shape.node_selector,
        "tolerations": [_toleration(toleration) for toleration in shape.tolerations],
        "priorityClassName": shape.priority_class,
    }
    return {name: value for name, value in fields.items() if value}


def _toleration(toleration: Toleration) -> dict[str, Any]:
    fields = toleration.model_dump(exclude_none=True)
    seconds = fields.pop("seconds", None)
    return fields if seconds is None else {**fields, "tolerationSeconds": seconds}


def quantities(resources: Resources) -> dict[str, str]:
    """Return the quantities by Kubernetes' names for the resources."""
    return {name.replace("_", "-"): value for name, value in resources.model_dump(exclude_none=True).items()}
