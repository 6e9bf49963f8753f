"""The Kubernetes backend under the contract of the Cluster port, as the least-privileged user that may act."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.clusters.kubernetes.observe.looking import PATIENT, JobPatience
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.looks import JobLook, JobPhase
from crawler_lifecycle.model.naming import job_name
from tests.kit.clusters.behaviours import Behaviour
from tests.kit.waiting import until
from tests.kubernetes.bed import Bed


class KubernetesBench:
    def __init__(self, bed: Bed, namespace: str, folder: Path) -> None:
        self.bed = bed
        self.namespace = namespace
        self.folder = folder
        self.installation = str(uuid4())
        self.cluster = self.client()

    def client(
        self, installation: str | None = None, server: str | None = None, patience: JobPatience = PATIENT
    ) -> KubernetesCluster:
        """`server`: the address of a proxy in between."""
        access = ApiAccess(self.namespace, self.bed.kubeconfig("actor", self.namespace, server))
        return KubernetesCluster(
            access, installation or self.installation, PodSettings(), LogStorage(self.folder), patience
        )

    def other_client(self, installation: str) -> KubernetesCluster:
        return self.client(installation)

    def request(self, behaviour: Behaviour, **changes: object) -> DeploymentRequest:
        values: dict[str, object] = {
            "installation": self.installation,
            "run_id": 7,
            "run_uid": str(uuid4()),
            "task": 0,
            "tasks": 4,
            "attempt": 1,
            "crawler": Crawler(name="shell", command=["/bin/sh", "-c", behaviour.script], image=behaviour.image),
        }
        request = DeploymentRequest.model_validate(values | changes)
        name = self.name(request)
        if behaviour.output and not self.bed.kubelet.output(name):
            self.bed.kubelet.print(name, behaviour.output)
        return request

    @staticmethod
    def name(request: DeploymentRequest) -> str:
        try:
            return job_name(request.run_uid, request.task, request.attempt)
        except ValueError:
            return ""  # such a run_uid is what is tested

    def job(self, request: DeploymentRequest) -> JobLook | None:
        key = (request.task, request.attempt)
        look = self.cluster.look(request.run_uid, [key])
        assert look.complete, look.problem
        return look.jobs.get(key)

    def until_phase(self, request: DeploymentRequest, *phases: JobPhase) -> JobLook:
        def reached() -> JobLook | None:
            job = self.job(request)
            return job if job and job.phase in phases else None

        return until(reached, f"{request.key} to be {' or '.join(phases)}")

    def until_ended(self, request: DeploymentRequest) -> JobLook:
        return self.until_phase(request, JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.VANISHED)

    def until_stopped(self, request: DeploymentRequest) -> JobLook | None:
        """What is asked to end is deleted: provably nothing is left of it."""
        until(lambda: self.job(request) is None, f"{request.key} to be gone")
        assert self.objects(request) == []
        return None

    def objects(self, request: DeploymentRequest) -> list[dict[str, Any]]:
        """Its Job and pods, as the bed's master sees them."""
        chosen = f"crawler-lifecycle/run-uid={request.run_uid},crawler-lifecycle/task={request.task}"
        paths = (f"/apis/batch/v1/namespaces/{self.namespace}/jobs", f"/api/v1/namespaces/{self.namespace}/pods")
        return [item for path in paths for item in self.bed.admin.items(path, labelSelector=chosen)]
