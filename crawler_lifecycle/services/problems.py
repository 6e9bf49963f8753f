"""Makes FastAPI applications whose errors are of the type application/problem+json (RFC 9457), and their documents."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, NotReady, TemporaryError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5

Responses = dict[int | str, dict[str, Any]]
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def problem(
    status: int,
    detail: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
    cause: str | None = None,
) -> Response:
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, field=field, cause=cause)
    return Response(body.model_dump_json(exclude_none=True), status, headers, MEDIA_TYPE)


def result_unknown(error: TemporaryError) -> Response:
    """Return the answer to a request without a key that may have succeeded. There is no Retry-After: a client that
    obeyed the header could start a second run."""
    return problem(503, error.message, cause=error.cause)


def answer_with_problems(app: FastAPI) -> None:
    """Register handlers that answer every exception and every unknown path with a problem."""
    app.add_exception_handler(LifecycleError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def status_of(error: LifecycleError) -> int:
    match error:
        case NotFound():
            return 404
        case Conflict():
            return 409
        case TemporaryError() | NotReady():
            return 503  # the request itself is correct, so a repetition may succeed
        case _:
            return 422


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, LifecycleError)
    status = status_of(error)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else None
    if isinstance(error, BadInput):
        return problem(status, error.expected, error.field, headers)
    return problem(status, error.message, headers=headers, cause=error.cause)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    if first["type"] == "json_invalid":
        return problem(400, f"not JSON: {first['ctx']['error']}", "body")
    status = 400 if first["loc"][0] == "header" else 422
    more = f" (and {len(others)} more)" if others else ""
    return problem(status, first["msg"].removeprefix("Value error, ") + more, _field(first["loc"]))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, headers=error.headers)


async def _bug(_: Request, error: Exception) -> Response:
    return problem(500, f"unexpected {type(error).__name__}; the service's log tells more")


def _field(location: tuple[object, ...]) -> str:
    """Return the field's name: `body.crawler.processes` becomes `crawler.processes`; headers and parameters keep
    their names."""
    _, *inside = location  # pydantic marks a bad key of a mapping by a last part `[key]`
    return ".".join(str(part) for part in inside if part != "[key]")[:200] or str(location[0])


class Health(Message):
    status: str


def new_app(title: str, description: str, lifespan: Lifespan) -> FastAPI:
    """Return an application without routes. Its errors are problems, and its document says so."""
    app = FastAPI(
        title=title,
        version="1.0.0",
        description=description,
        docs_url=None,  # the documentation pages would load scripts from foreign servers
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        telemetry={"auto_configure": False},  # variables in the environment must not start an export of telemetry
    )
    answer_with_problems(app)
    app.openapi = partial(document, app)  # type: ignore[method-assign]  # FastAPI's own way of changing it
    return app


def problems(**descriptions: str) -> Responses:
    """Return error responses by status, written `_409="..."`."""
    return {
        int(status.removeprefix("_")): {"model": Problem, "description": description}
        for status, description in descriptions.items()
    }


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with problems under their own media type."""
    contents = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    for path in contents["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400 and "application/json" in response.get("content", {}):
                    response["content"] = {MEDIA_TYPE: response["content"]["application/json"]}
    return contents
