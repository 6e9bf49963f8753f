"""Models for a scheduler service's HTTP interface. The service has the catalogue and makes jobs."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import LONGEST_FUNCTION, LONGEST_NAME
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.pod_shape import PodShape, Quantity
from crawler_lifecycle.model.requests import (
    MOST_LABELS,
    MOST_TASKS_EVER,
    Argument,
    ArgumentName,
    ClusterName,
    Label,
    Name,
    Priority,
    Seconds,
)
from crawler_lifecycle.model.retries import Retries


def checked_token(token: str, variable: str = "CRAWLER_SCHEDULER__TOKEN") -> str:
    """Return the token if the text can be a bearer token; raise NotReady otherwise. Service and client check alike."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise NotReady(f"{variable}: expected a bearer token of printable ASCII without spaces")
    return token


class Resources(Message):
    """Resources for a task. Kubernetes enforces the resources; the local cluster only records the resources."""

    cpu: Quantity | None = Field(default=None, description="as a quantity of Kubernetes, such as `500m`")
    memory: Quantity | None = Field(default=None, description="as a quantity of Kubernetes, such as `1Gi`")
    ephemeral_storage: Quantity | None = Field(
        default=None, description="disk for files that go with the pod, as a quantity of Kubernetes, such as `10Gi`"
    )


class Crawler(Message):
    """Catalogue entry. A run copies its entry when the run starts."""

    name: Name
    command: list[str] = Field(default_factory=list, max_length=256, description="program and arguments of a task")
    argument_flag: str | None = Field(
        default=None, max_length=64, description="option in front of each `name=value` at the end of the command"
    )
    setting_flag: str | None = Field(
        default=None, max_length=64, description="option in front of each setting, as `name=value`, after the arguments"
    )
    project: int | str | None = Field(
        default=None, description="project of crawl managers whose runs prefer the entry, for a name `CRAWLER@PROJECT`"
    )
    image: str | None = Field(default=None, max_length=512, description="container image, for Kubernetes")
    environment: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Resources()
    pod: PodShape = PodShape()
    processes: int = Field(default=1, ge=1, le=MOST_TASKS_EVER, description="default number of tasks")
    max_parallel: int | None = Field(
        default=None, ge=1, le=MOST_TASKS_EVER, description="most tasks of a run in the cluster at once"
    )
    labels: list[Label] = Field(default_factory=list, max_length=MOST_LABELS, description="labels of each of its runs")
    priority: Priority | None = Field(default=None, description="default priority of its runs")
    start_limit_seconds: Seconds | None = None
    max_duration_seconds: Seconds | None = None
    grace_seconds: Seconds | None = None
    retries: Retries | None = None


class ManagerEntry(Message):
    """Catalogue entry for a crawl manager. Doors for other machines start managers by the entry's name alone."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] = Field(
        description="the manager's name in its flow's id, `flow id/name`"
    )
    function: str = Field(
        alias="class", max_length=LONGEST_FUNCTION, pattern=r"^[\w.-]+:[\w.]+$", description="class as `module:Class`"
    )
    arguments: list[str] = Field(default_factory=list, max_length=1000, description="arguments before a start's own")
    queue: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] = "default"


class CrawlerNames(Message):
    """The names in the catalogue, and the service's state."""

    crawlers: list[str]
    managers: list[str] = Field(default=[], description="names of the crawl managers")
    labels: list[str] = Field(default=[], description="labels in the crawlers' entries")
    problem: str | None = Field(default=None, description="error in the catalogue file; its last good state is in use")
    installation: str | None = Field(
        default=None, description="UUID of the only installation for which the service deploys; none: any"
    )


class JobNamespace(Message):
    """Namespace for the installation's jobs. Two namespaces with the same name have different uids."""

    name: str
    uid: str
    cluster_uid: str | None = Field(
        default=None, description="uid of the namespace kube-system, which identifies the cluster; none: not readable"
    )


class DeploymentRequest(Message):
    """Request for an attempt's job. Requests with the same key always get the same job."""

    installation: Annotated[str, Field(min_length=36, max_length=36)]
    run_id: int
    run_uid: Annotated[str, Field(min_length=36, max_length=36)]
    task: int = Field(ge=0, description="number of the task, from 0")
    tasks: int = Field(ge=1, description="number of tasks in the run")
    attempt: int = Field(ge=1)
    cluster: ClusterName = "default"
    crawler: Crawler
    arguments: dict[ArgumentName, Argument] = Field(default_factory=dict)
    settings: dict[ArgumentName, Argument] = Field(default_factory=dict)
    labels: list[Label] = Field(default_factory=list, description="labels of the run")
    deadline_seconds: Seconds | None = Field(default=None, description="duration after which the cluster ends the job")
    grace_seconds: Seconds | None = Field(default=None, description="time from the request to end until the force")
    not_after: datetime | None = Field(
        default=None, description="expiry of the requester's claim; from this time on the job must not be made"
    )
    namespace: JobNamespace | None = Field(
        default=None, description="namespace of the installation's jobs; the job must not be made in another one"
    )

    @property
    def key(self) -> str:
        return f"{self.run_uid}:{self.task}:{self.attempt}"


class Deployment(Message):
    """Answer to a deployment request: the job for the request's key."""

    key: str
    job_name: str
    job_uid: str
    created: bool = Field(description="false: an earlier request with this key made the job")


class Mistake(Message):
    """An unacceptable part in a request."""

    field: str = Field(description="the part: a field of the body by its path, a parameter, a header, or `body`")
    detail: str = Field(description="what the part was expected to be")


class Problem(Message):
    """The service's error as application/problem+json (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str = Field(
        default="failed",
        pattern=r"^[a-z][a-z0-9_]{0,63}$",
        description="the kind of error in one stable word; `detail` is for people, and its words may change",
    )
    detail: str
    field: str | None = Field(default=None, description="the first part of the request that is not acceptable")
    errors: list[Mistake] = Field(default=[], description="all parts of the request that are not acceptable")
    cause: str | None = Field(
        default=None,
        pattern=r"^[a-z][a-z0-9_]{0,63}$",
        description="the error in one word, for the run that waits or fails",
    )
