"""HTTP API as one application: gate, endpoints, page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import APIRouter, Depends, FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from crawler_lifecycle.control.control import Control
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.services.api import archives, audits, commands, runs, schedules, streams
from crawler_lifecycle.services.api.desk import READING, CurrentDesk, Desk
from crawler_lifecycle.services.api.document import COMMON, DESCRIPTION
from crawler_lifecycle.services.api.doorkeeper import Doorkeeper
from crawler_lifecycle.services.api.messages import Health
from crawler_lifecycle.services.api.metrics import Counting
from crawler_lifecycle.services.api.page_files import files, page_router
from crawler_lifecycle.services.api.parameters import method_not_allowed, refuse_strange_parameters
from crawler_lifecycle.services.api.plain_requests import PlainRequests
from crawler_lifecycle.services.api.tags import Tags
from crawler_lifecycle.services.api.tokens import Tokens
from crawler_lifecycle.services.disk import DiskWatch
from crawler_lifecycle.services.gate import Gate
from crawler_lifecycle.services.openapi import document
from crawler_lifecycle.services.problems import speak_problems
from crawler_lifecycle.settings import Settings

HEALTH = ("/healthz", "/readyz")
READY_SECONDS = 5.0

health = APIRouter(tags=["health"])


@health.get("/healthz")
async def healthz() -> Health:
    """The process answers. Needs no token."""
    return Health(status="alive")


@health.get("/readyz", responses={503: COMMON[503]})
async def readyz(desk: CurrentDesk) -> Health:
    """Database and Temporal answer, or did a moment ago, and the disks have room. Needs no token."""
    desk.disks.check()
    await desk.readiness.ask(lambda: _all_answer(desk))
    return Health(status="ready")


async def _all_answer(desk: Desk) -> None:
    try:
        async with asyncio.timeout(READY_SECONDS):
            await desk.control.context.database(lambda store: store.records.installation())
            await desk.control.engine.ping()
    except TimeoutError as error:
        raise TemporaryError(f"database and Temporal did not answer in {READY_SECONDS:.0f} s") from error


@health.get("/metrics", include_in_schema=False, dependencies=READING)
async def metrics(desk: CurrentDesk) -> Response:
    desk.metrics.streams.set(desk.streams.open)
    return Response(desk.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk: Desk = app.state.desk
    async with desk.disks.running():
        yield


def make_app(control: Control, settings: Settings) -> FastAPI:
    app = _routes()
    disks = DiskWatch(settings.local_folders)
    desk = app.state.desk = Desk(control, settings.api, Tokens(settings.tokens_file), disks=disks)
    app.include_router(page_router())
    admit = Doorkeeper(desk.tokens, settings.api.requests_per_second)
    open_paths = {*HEALTH, *files()}
    app.add_middleware(Gate, admit=admit, open_paths=open_paths, largest_body=settings.api.largest_body)
    if origins := [origin.strip() for origin in settings.api.origins.split(",") if origin.strip()]:
        app.add_middleware(  # outside of the gate: a browser asks for permission without the token
            CORSMiddleware,
            allow_origins=origins,
            expose_headers=["ETag", "Location", "Retry-After", "X-Archive-SHA256"],
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID"],
        )
    app.add_middleware(Tags)
    app.add_middleware(GZipMiddleware, compresslevel=5)  # streams and archives pass unchanged
    app.add_middleware(Counting, metrics=desk.metrics)
    app.add_middleware(PlainRequests)
    return app


def openapi_document() -> dict[str, object]:
    return _routes().openapi()


def _routes() -> FastAPI:
    app = FastAPI(
        title="Crawler lifecycle",
        version="1.0.0",
        description=DESCRIPTION,
        docs_url=None,  # the documentation pages would load scripts from foreign servers
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=lambda route: route.name,
        telemetry={"auto_configure": False},  # variables in the environment must not start an export of telemetry
    )
    speak_problems(app)
    app.add_exception_handler(405, method_not_allowed)
    for router in (runs, archives, commands, schedules, audits, streams):
        app.include_router(router.router, dependencies=[Depends(refuse_strange_parameters)], responses=COMMON)
    app.include_router(health)
    app.openapi = partial(document, app)  # type: ignore[method-assign]  # FastAPI's own way of changing it
    return app
