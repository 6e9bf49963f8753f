"""Answers errors with problems: JSON of the type application/problem+json (RFC 9457), for both HTTP services."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.contract.refusals import expectation
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, NotReady, TemporaryError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5
LONGEST_FIELD = 200  # characters for a field's name in a problem: a client may send names of any length

Responses = dict[int | str, dict[str, Any]]  # descriptions of an endpoint's responses by status, for the document


def problem(
    status: int,
    detail: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
    cause: str | None = None,
) -> Response:
    """Return an error response. `field` names the wrong part of the request, if a single part is wrong."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, field=field, cause=cause)
    return Response(body.model_dump_json(exclude_none=True), status, headers, MEDIA_TYPE)


def problem_with_unknown_result(error: TemporaryError) -> Response:
    """Return the problem for a request without a key that may have succeeded in spite of the error.

    There is no Retry-After: a client that obeyed the header could start a second run.
    """
    return problem(503, error.message, cause=error.cause)


def problems(**descriptions: str) -> Responses:
    """Return the descriptions of error responses by status, for the OpenAPI document.

    An argument for the status 409 is written `_409="..."`, since a Python name cannot begin with a digit.
    """
    return {
        int(status.removeprefix("_")): {"model": Problem, "description": description}
        for status, description in descriptions.items()
    }


def answer_with_problems(app: FastAPI) -> None:
    """Register handlers that answer every exception and every unknown path with a problem."""
    app.add_exception_handler(LifecycleError, _answer_lifecycle_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    app.add_exception_handler(Exception, _answer_bug)


async def _answer_lifecycle_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, LifecycleError)
    status = status_of(error)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    if isinstance(error, BadInput):
        return problem(status, error.expected, error.field, headers)
    return problem(status, error.message, headers=headers, cause=error.cause)


def status_of(error: LifecycleError) -> int:
    """Return the HTTP status for an error."""
    match error:
        case NotFound():
            return 404
        case Conflict():
            return 409
        case TemporaryError() | NotReady():
            return 503  # the request itself is correct, so a repetition may succeed
        case _:
            return 422


async def _answer_invalid_request(_: Request, error: Exception) -> Response:
    """Return 400 for unreadable JSON and wrong headers, otherwise 422. The detail explains the first error only."""
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    if first["type"] == "json_invalid":
        return problem(400, f"not JSON: {first['ctx']['error']}", "body")
    status = 400 if first["loc"][0] == "header" else 422
    more = f" (and {len(others)} more)" if others else ""
    return problem(status, expectation(first) + more, _field_name(first["loc"]))


def _field_name(location: tuple[object, ...]) -> str:
    """Return the field's name at pydantic's location: `body.crawler.processes` becomes `crawler.processes`.

    Headers and parameters keep their names, also for a wrong value in a list. A location with one part, such as
    `body`, is the name itself.
    """
    place, *parts = location
    if place == "query":
        return str(parts[0])[:LONGEST_FIELD]
    names = [str(part) for part in parts if part != "[key]"]  # pydantic marks a bad key of a mapping by `[key]`
    return ".".join(names)[:LONGEST_FIELD] or str(location[0])


async def _answer_http_exception(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, headers=error.headers)


async def _answer_bug(_: Request, error: Exception) -> Response:
    return problem(500, f"unexpected {type(error).__name__}; the service's log tells more")
