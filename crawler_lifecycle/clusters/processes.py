"""Reference scheduler service, which creates jobs in the cluster for workers and dispatcher.

The service runs a single job per key, also for repeated requests, and keeps no state. The OpenAPI document
(`docs/scheduler-openapi.json`) is the contract for a company's own service. For a local cluster, `PlacingLoop` starts
waiting jobs as soon as places are free.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol, Self, runtime_checkable

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response, Security, params
from fastapi.security import HTTPBearer
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.exceptions import HTTPException

from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady, TemporaryError
from crawler_lifecycle.http.gate import Gate, require_token
from crawler_lifecycle.http.health import DiskWatch, PublicProblems
from crawler_lifecycle.http.http_process import Health, new_app
from crawler_lifecycle.http.problems import Responses, problem, problems, status_of
from crawler_lifecycle.logs import about
from crawler_lifecycle.model.deployment import (
    Crawler,
    CrawlerNames,
    Deployment,
    DeploymentRequest,
    ManagerEntry,
    checked_token,
)
from crawler_lifecycle.model.reasons import CLUSTER_UNAVAILABLE
from crawler_lifecycle.model.requests import Name
from crawler_lifecycle.settings.processes import SchedulerSettings

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0  # most seconds by which a waiting job waits longer than necessary
DESCRIPTION = """
Runs jobs in a cluster. A repeated request runs no second job. A company may use its own service in place of this
reference service: this document is the contract.

- **One key, one job, always.** The key of a deployment is `{run_uid}:{task}:{attempt}`; the header
  `Idempotency-Key` repeats the key. Equal requests with a key get the same job, also at the same time and after a
  restart of the service.
- **Errors** are `application/problem+json`. 400, 409, 413 and 422 are final: no job was made, and none will be made.
  After any other answer, or none, the result is unknown, and the caller repeats the request with the same key.
- **Jobs** carry the labels `installation`, `run_uid`, `task` and `attempt`, by which the jobs are found again.
"""
LARGEST_BODY = 1 << 20  # bytes
OPEN_PATHS = ("/healthz", "/readyz")
OUTCOMES = {409: "conflict", 422: "refused", 503: "unavailable"}  # labels in the metrics, by the error's status
COMMON = problems(_401="No valid bearer token.", _503="The result is not known; try again later (see Retry-After).")
JOB_MADE: Responses = {
    201: {"description": "The job was made."},
    200: {"model": Deployment, "description": "An earlier request with this key made the job."},
}


@runtime_checkable
class PlacesJobs(Protocol):
    """A cluster whose waiting jobs start only on request."""

    def place_waiting(self) -> object:
        """Start waiting jobs while the cluster has free places."""


class PlacingLoop:
    def __init__(self, cluster: PlacesJobs) -> None:
        self._cluster = cluster
        self.problem: str | None = None  # None: the last try succeeded

    async def run(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._cluster.place_waiting)
                self.problem = None
            except (LifecycleError, OSError) as error:
                self._report(str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    def report_end(self, task: asyncio.Task[None]) -> None:
        """Report that an unexpected error ended the loop's task. Deployments continue, but the service is not ready."""
        if not task.cancelled() and (error := task.exception()):
            self.problem = f"waiting jobs are not placed any more ({type(error).__name__}); restart the service"
            logger.error(self.problem, exc_info=error)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("waiting jobs cannot be placed: %s", problem)
        self.problem = problem


class Permission(StrEnum):
    """Permission of a token. Whoever may deploy runs any command under the crawls' account, so few may."""

    DEPLOY = "deploy"
    READ = "read"  # the catalogue
    METRICS = "metrics"


@dataclass(frozen=True)
class ServiceTokens:
    """The tokens that the service accepts: the deploying token permits all, each other token a single thing."""

    deploy: str
    read: str = ""  # "": there is no such token
    metrics: str = ""

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(
            settings.token.get_secret_value(),
            settings.read_token.get_secret_value(),
            settings.metrics_token.get_secret_value(),
        )

    def permissions(self) -> dict[str, Collection[Permission]]:
        """Return the permissions by token. NotReady: a token is missing, cannot be sent, or permits two things."""
        limited = {"READ_TOKEN": (self.read, Permission.READ), "METRICS_TOKEN": (self.metrics, Permission.METRICS)}
        permissions: dict[str, Collection[Permission]] = {checked_token(self.deploy): tuple(Permission)}
        for name, (token, permission) in limited.items():
            variable = f"CRAWLER_SCHEDULER__{name}"
            if not token:
                continue
            if checked_token(token, variable) in permissions:
                raise NotReady(f"{variable}: expected another token than the others: each permits something else")
            permissions[token] = (permission,)
        return permissions


class SchedulerService:
    """The shared state of all endpoints. `deploy` runs a job and counts the outcome in the metrics."""

    def __init__(
        self, cluster: Cluster, catalogue: Catalogue, installation: str | None = None, folders: Sequence[Path] = ()
    ) -> None:
        self.cluster = cluster
        self.catalogue = catalogue
        self.installation = installation
        self.disks = DiskWatch(folders)
        # the loop that starts waiting jobs in free places; None: the cluster itself starts its waiting jobs
        self.placing = PlacingLoop(cluster) if isinstance(cluster, PlacesJobs) else None
        self.metrics = CollectorRegistry()
        self.outcomes = Counter(
            "scheduler_deployments", "Deployments asked for, by outcome", ["outcome"], registry=self.metrics
        )
        self.duration = Histogram("scheduler_deployment_seconds", "Time a deployment took", registry=self.metrics)
        self.disk_problem = Gauge(
            "scheduler_disk_problem", "1 while a disk takes no writes or has little room", registry=self.metrics
        )
        self.public_problems = PublicProblems()

    def deploy(self, request: DeploymentRequest) -> Deployment:
        with self.duration.time():
            try:
                self._refuse_unknown_crawler(request)
                deployment = self.cluster.deploy(request)
            except LifecycleError as error:
                self.outcomes.labels(OUTCOMES.get(status_of(error), "refused")).inc()
                logger.warning("job not made: %s", error.message)
                raise
        self.outcomes.labels("created" if deployment.created else "existing").inc()
        logger.info("job %s %s", deployment.job_name, "made" if deployment.created else "was there already")
        return deployment

    def _refuse_unknown_crawler(self, request: DeploymentRequest) -> None:
        """Refuse a crawler that is not in the catalogue, unless the request's job exists.

        So a repeated request gets the same answer after the crawler was removed from the catalogue. A job is made from
        the request's copy of the entry.
        """
        try:
            self.catalogue.entry(request.crawler.name)
        except NotFound as error:
            look = self.cluster.look(request.run_uid)
            if (request.task, request.attempt) in look.jobs:
                return
            if not look.complete:  # the job may exist, and a refusal would be final
                raise TemporaryError(look.problem or "no jobs can be seen", cause=CLUSTER_UNAVAILABLE) from error
            raise BadInput("crawler", error.message) from error


def _current_service(request: Request) -> SchedulerService:
    service: SchedulerService = request.app.state.service
    return service


CurrentService = Annotated[SchedulerService, Depends(_current_service)]


def _permitting(permission: Permission) -> list[params.Depends]:
    """Return a dependency that answers 403 without the permission. `Gate` has set `scopes` to the token's."""

    def check(request: Request) -> None:
        if permission not in request.state.scopes:
            raise HTTPException(403, f"this token does not permit: {permission}")

    return [Depends(check)]


DEPLOYING, READING = _permitting(Permission.DEPLOY), _permitting(Permission.READ)
SCRAPING = _permitting(Permission.METRICS)
Key = Annotated[str, Header(alias="Idempotency-Key", description="`{run_uid}:{task}:{attempt}`, as in the body")]

# The gate has checked the token already; the dependency only declares the token in the OpenAPI document.
v1 = APIRouter(
    prefix="/v1",
    dependencies=[Security(HTTPBearer(auto_error=False, description="The token that service and callers share."))],
    responses=COMMON | problems(_403="The token does not permit it."),
)
health_router = APIRouter()


@v1.post(
    "/deployments",
    status_code=201,
    dependencies=DEPLOYING,
    response_model=Deployment,
    responses=JOB_MADE
    | problems(
        _409="The key was used for another request.",
        _413=f"The body is larger than {LARGEST_BODY} bytes.",
        _422="The request is not acceptable: `field` names the part, such as an Idempotency-Key that is not the "
        "key of the body, or a crawler that is missing in the catalogue.",
    ),
)
def deploy_job(service: CurrentService, key: Key, body: DeploymentRequest, response: Response) -> Deployment | Response:
    """Run one job for the key. An existing job is the answer."""
    if key != body.key:
        return problem(422, f"expected the key of the body, {body.key}", "Idempotency-Key")
    with about(run_id=body.run_id, task=body.task, attempt=body.attempt):
        deployment = service.deploy(body)
    response.status_code = 201 if deployment.created else 200
    return deployment


@v1.get("/crawlers", dependencies=READING)
def list_crawlers(service: CurrentService) -> CrawlerNames:
    """Return the catalogue's names, and the error in its file if the file's older state is in use."""
    catalogue = service.catalogue
    return CrawlerNames(
        crawlers=catalogue.names(),
        managers=catalogue.manager_names(),
        labels=catalogue.labels(),
        problem=catalogue.problem(),
        installation=service.installation,
    )


@v1.get(
    "/crawler",
    dependencies=READING,
    response_model=Crawler,
    responses=problems(_404="There is no such crawler; `field` is `name`.", _422="The name is not acceptable."),
)
def get_crawler(service: CurrentService, name: Annotated[Name, Query()]) -> Crawler | Response:
    """Return one entry of the catalogue. The name is a parameter: a name may hold slashes, percent signs and dots."""
    try:
        return service.catalogue.entry(name)
    except NotFound as error:
        return problem(404, error.message, "name")


@v1.get(
    "/manager",
    dependencies=READING,
    response_model=ManagerEntry,
    responses=problems(_404="There is no such crawl manager; `field` is `name`.", _422="The name is not acceptable."),
)
def get_manager(service: CurrentService, name: Annotated[Name, Query()]) -> ManagerEntry | Response:
    """Return the catalogue's entry of a crawl manager. A service without managers answers 404."""
    try:
        return service.catalogue.manager(name)
    except NotFound as error:
        return problem(404, error.message, "name")


@health_router.get("/healthz", name="check_life")
async def healthz() -> Health:
    """The process answers. Needs no token."""
    return Health(status="alive")


@health_router.get("/readyz", name="check_readiness", responses={503: COMMON[503]})
def readyz(service: CurrentService, request: Request) -> Health:
    """Deployments can be made: the cluster answers. Needs no token; only the holder of a token reads what is wrong."""
    is_known = hasattr(request.state, "scopes")
    with nullcontext() if is_known else service.public_problems.shortened("cluster"):
        if service.placing and service.placing.problem:
            raise TemporaryError(service.placing.problem)
        line = service.cluster.check()
    return Health(status=line if is_known else "ready")


@health_router.get("/metrics", include_in_schema=False, dependencies=SCRAPING)
def metrics(service: CurrentService) -> Response:
    service.disk_problem.set(service.disks.has_problem)
    return Response(generate_latest(REGISTRY) + generate_latest(service.metrics), media_type=CONTENT_TYPE_LATEST)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: SchedulerService = app.state.service
    async with in_background(service.disks.run()):
        if service.placing is None:
            yield
            return
        async with in_background(service.placing.run()) as placing_task:
            placing_task.add_done_callback(service.placing.report_end)
            yield


def make_app(
    cluster: Cluster,
    catalogue: Catalogue,
    tokens: ServiceTokens,
    *,
    installation: str | None = None,
    folders: Sequence[Path] = (),
) -> FastAPI:
    """Make the service. The disks of `folders` are watched. Without `installation`, the service deploys for any."""
    app = _app_with_endpoints()
    app.state.service = SchedulerService(cluster, catalogue, installation, folders)
    app.add_middleware(
        Gate, check_caller=require_token(tokens.permissions()), open_paths=OPEN_PATHS, largest_body=LARGEST_BODY
    )
    return app


def openapi_document() -> dict[str, object]:
    return _app_with_endpoints().openapi()


def _app_with_endpoints() -> FastAPI:
    app = new_app("Crawler scheduler", DESCRIPTION, _lifespan)
    app.include_router(v1)
    app.include_router(health_router)
    return app
