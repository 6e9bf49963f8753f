"""The acting half of the Kubernetes adapter against an API server that plays its part."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from crawler_lifecycle.clusters.kubernetes.act.deploying import Deploying
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.act.removal import Removing
from crawler_lifecycle.clusters.kubernetes.act.stopping import JobStopping, Reaching
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.logs.evidence import Collecting
from crawler_lifecycle.clusters.kubernetes.logs.follower import Listening
from crawler_lifecycle.clusters.kubernetes.logs.store import Logs
from crawler_lifecycle.clusters.kubernetes.observe.jobs import Jobs
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest, Resources
from crawler_lifecycle.model.naming import job_name
from tests.kit.clusters.api_servers import ApiServer, Json, an_access

CRAWLER = Crawler(
    name="bookshop",
    image="registry/bookshop:1",
    command=["crawl", "$(HOME)"],
    argument_flag="-a",
    setting_flag="-s",
    environment={"MODE": "fast $(id)", "CRAWL_TASK": "not yours", "CRAWL_JOB_UID": "nor this"},
    resources=Resources(cpu="500m", memory="256Mi"),
)


@dataclass
class Acting:
    """The acting half of the adapter, and the server it acts on."""

    server: ApiServer
    folder: Path
    installation: str = field(default_factory=lambda: str(uuid4()))
    run_uid: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        self.api = KubernetesApi(an_access(self.server, self.folder))
        self.jobs = Jobs(self.api, self.installation)
        self.logs = Logs(self.api, self.folder / "files", 1000)
        self.deploying = Deploying(self.api, PodSettings())
        self.listening = Listening(self.logs)
        self.stopping = JobStopping(self.jobs, self.listening)
        self.reaching = Reaching(self.jobs, self.logs)
        self.removing = Removing(self.jobs, self.logs, self.listening)
        self.collecting = Collecting(self.jobs, self.logs, self.listening)

    def another(self) -> "Acting":
        """Worker of this installation."""
        return replace(self)

    def request(self, **changes: Any) -> DeploymentRequest:
        given = {
            "installation": self.installation,
            "run_id": 7,
            "run_uid": self.run_uid,
            "task": 0,
            "tasks": 4,
            "attempt": 1,
            "crawler": CRAWLER,
        }
        return DeploymentRequest.model_validate(given | changes)

    def name(self, task: int = 0, attempt: int = 1) -> str:
        return job_name(self.run_uid, task, attempt)

    def deploy(self, task: int = 0, attempt: int = 1, **changes: Any) -> Json:
        self.deploying.deploy(self.request(task=task, attempt=attempt, **changes))
        return self.job(task, attempt)

    def job(self, task: int = 0, attempt: int = 1) -> Json:
        return self.server.objects["jobs"][self.name(task, attempt)]

    def pod(self, job: Json, phase: str = "Running", **status: Any) -> Json:
        metadata = {"name": job["metadata"]["name"] + "-x", "labels": job["metadata"]["labels"]}
        spec = {"nodeName": "node-7", "containers": [{"name": "crawl"}]}
        return self.server.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": phase, **status}})


def ended_with(code: int, reason: str, message: str = "") -> Json:
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"containerStatuses": [{"name": "crawl", "restartCount": 0, "state": {"terminated": end}}]}


def warn(acting: Acting, about: Json, name: str, message: str) -> None:
    involved = {"uid": about["metadata"]["uid"]}
    event = {"metadata": {"name": name}, "involvedObject": involved, "type": "Warning", "reason": "BackOff"}
    acting.server.put("events", event | {"message": message, "count": 3, "lastTimestamp": "2026-11-20T10:00:00Z"})
