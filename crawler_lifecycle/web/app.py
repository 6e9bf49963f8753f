"""Assembles the HTTP API from middleware, endpoints and the live page."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.audits import http as audits
from crawler_lifecycle.base.background import in_background
from crawler_lifecycle.delivery import http as archives
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.http import commands as flow_commands
from crawler_lifecycle.flows.http import flows
from crawler_lifecycle.http.document import COMMON, DESCRIPTION
from crawler_lifecycle.http.gate import ApiCallerCheck, Gate, refuse_unknown_parameters
from crawler_lifecycle.http.health import NO_ANSWER, DiskWatch
from crawler_lifecycle.http.http_process import Health, new_app
from crawler_lifecycle.http.middleware import EntityTags, NormalizedRequests, RequestCounting
from crawler_lifecycle.http.problems import answer_wrong_method
from crawler_lifecycle.http.state import READING, ApiState, api_state
from crawler_lifecycle.http.tokens import Tokens
from crawler_lifecycle.limits import http as admission
from crawler_lifecycle.managers import http as managers
from crawler_lifecycle.runs.http import commands, runs, streams
from crawler_lifecycle.schedules import http as schedules
from crawler_lifecycle.settings import Settings
from crawler_lifecycle.web import installation
from crawler_lifecycle.web.page_files import files_by_path, page_router

CurrentApi = Annotated[ApiState[Control], Depends(api_state)]
HEALTH_PATHS = ("/healthz", "/readyz")
READINESS_SECONDS = 5.0  # time limit for the answers of database and Temporal together

health_router = APIRouter(tags=["health"])


@health_router.get("/healthz", name="check_life")
async def healthz() -> Health:
    """The process answers. Needs no token."""
    return Health(status="alive")


@health_router.get("/readyz", name="check_readiness", responses={503: COMMON[503]})
async def readyz(api: CurrentApi) -> Health:
    """Database and Temporal answer, or did a moment ago. Needs no token."""
    await api.readiness.require(lambda: _require_answers(api))
    return Health(status="ready")


async def _require_answers(api: ApiState[Control]) -> None:
    deadline = asyncio.get_running_loop().time() + READINESS_SECONDS
    with api.public_problems.shortened("database"):
        await _until(deadline, api.control.context.database(lambda store: store.records.installation()))
    with api.public_problems.shortened("temporal"):
        await _until(deadline, api.control.engine.ping())


async def _until(deadline: float, answer: Awaitable[object]) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await answer
    except TimeoutError as error:
        raise TemporaryError(f"no answer in {READINESS_SECONDS:.0f} s", cause=NO_ANSWER) from error


@health_router.get("/metrics", include_in_schema=False, dependencies=READING)
async def metrics(api: CurrentApi) -> Response:
    api.metrics.streams.set(api.streams.open_count)
    api.metrics.disk_problem.set(api.disks.has_problem)
    return Response(api.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    api: ApiState[Control] = app.state.api
    async with in_background(api.disks.run()):
        yield


def make_app(control: Control, settings: Settings, more: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the application. `more`: endpoints of capabilities with their own folders."""
    app = _app_with_endpoints(more)
    disks = DiskWatch(settings.local_folders)
    api = ApiState(
        control, settings.api, Tokens(settings.tokens_file, settings.api.operator_token.get_secret_value()), disks=disks
    )
    app.state.api = api
    app.include_router(page_router())
    check = ApiCallerCheck(api.tokens, settings.api.requests_per_second)
    open_paths = {*HEALTH_PATHS, *files_by_path()}
    # a request passes the middleware in reverse: first the middleware that is added last, and at the end the gate
    app.add_middleware(Gate, check_caller=check, open_paths=open_paths, largest_body=settings.api.largest_body)
    origins = [origin.strip() for origin in settings.api.origins.split(",") if origin.strip()]
    if origins:  # a request passes CORS before the gate, since a browser asks for permission without the token
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            expose_headers=["ETag", "Location", "Retry-After", "X-Archive-SHA256"],
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID"],
        )
    app.add_middleware(EntityTags)
    app.add_middleware(GZipMiddleware, compresslevel=5)  # streams and archives pass unchanged
    app.add_middleware(RequestCounting, metrics=api.metrics)
    app.add_middleware(NormalizedRequests)
    return app


def openapi_document(more: Sequence[APIRouter] = ()) -> dict[str, object]:
    return _app_with_endpoints(more).openapi()


def _app_with_endpoints(more: Sequence[APIRouter]) -> FastAPI:
    app = new_app("Crawler lifecycle", DESCRIPTION, _lifespan)
    app.add_exception_handler(405, answer_wrong_method)
    modules = (
        runs,
        archives,
        commands,
        flow_commands,
        managers,
        flows,
        schedules,
        admission,
        installation,
        audits,
        streams,
    )
    for router in (*(module.router for module in modules), *more):
        app.include_router(router, dependencies=[Depends(refuse_unknown_parameters)], responses=COMMON)
    app.include_router(health_router)
    return app
