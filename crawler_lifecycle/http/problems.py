"""Answer errors with problems: JSON of the type application/problem+json (RFC 9457), for both HTTP services."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from crawler_lifecycle.base.refusals import expectation, field_name
from crawler_lifecycle.errors import BadInput, Conflict, LifecycleError, NotFound, NotReady, Removed, TemporaryError
from crawler_lifecycle.model.deployment import Mistake, Problem

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5
MOST_MISTAKES = 100  # in an answer
# the field `code` by status; an error of our own classes brings its code along
CODES = {
    400: BadInput.code,
    401: "unauthenticated",
    403: "forbidden",
    404: NotFound.code,
    405: "method_not_allowed",
    409: Conflict.code,
    410: Removed.code,
    412: Conflict.code,
    413: "too_large",
    415: "unsupported_media_type",
    416: BadInput.code,
    422: BadInput.code,
    429: "too_many_requests",
    500: LifecycleError.code,
    503: TemporaryError.code,
}
Responses = dict[int | str, dict[str, Any]]  # descriptions of an endpoint's responses by status, for the document
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def problem(status: int, detail: str, field: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response. `field` names the wrong part of the request, if a part is wrong."""
    mistakes = () if field is None else ((field, detail),)
    in_words = detail if field is None else BadInput(field, detail).message
    return _response(_model(status, CODES.get(status, LifecycleError.code), in_words, mistakes), headers)


def problem_of(error: LifecycleError) -> Problem:
    """Return the error as the model of an error response."""
    mistakes = error.mistakes if isinstance(error, BadInput) else ()
    return _model(status_of(error), error.code, error.message, mistakes, error.cause)


def refusal(error: LifecycleError) -> Response:
    """Return the error response, which says when another try may help."""
    body = problem_of(error)
    is_temporary = body.status == HTTPStatus.SERVICE_UNAVAILABLE
    return _response(body, {"Retry-After": str(RETRY_AFTER_SECONDS)} if is_temporary else None)


def problem_with_unknown_result(error: TemporaryError) -> Response:
    """Return the problem for a request without a key that may have succeeded in spite of the error.

    There is no Retry-After: a client that obeyed the header could start a second run.
    """
    return _response(problem_of(error))


def _model(
    status: int, code: str, detail: str, mistakes: Sequence[tuple[str, str]] = (), cause: str | None = None
) -> Problem:
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        field=mistakes[0][0] if mistakes else None,
        errors=[Mistake(field=field, detail=expected) for field, expected in mistakes[:MOST_MISTAKES]],
        cause=cause,
    )


def _response(body: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body.model_dump_json(exclude_none=True), body.status, headers, MEDIA_TYPE)


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
    return refusal(error)


def status_of(error: LifecycleError) -> int:
    """Return the HTTP status for an error."""
    match error:
        case Removed():
            return 410
        case NotFound():
            return 404
        case Conflict():
            return 409
        case TemporaryError() | NotReady():
            return 503  # the request itself is correct, so a repetition may succeed
        case _:
            return 422


async def _answer_invalid_request(_: Request, error: Exception) -> Response:
    """Answer 422 with all mistakes in path, query, headers and body."""
    assert isinstance(error, RequestValidationError)
    mistakes = [(_field_name(detail["loc"]), expectation(detail)) for detail in error.errors()]
    return refusal(BadInput(*mistakes[0], *mistakes[1:]))


def _field_name(location: tuple[object, ...]) -> str:
    """Return the field's name at pydantic's location: `body.crawler.processes` becomes `crawler.processes`.

    Headers and parameters keep their names, also for a wrong value in a list. A location with one part, such as
    `body`, is the name itself.
    """
    place, *parts = location
    return field_name(parts[:1] if place == "query" else parts) or str(place)


async def _answer_http_exception(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, headers=error.headers)


async def _answer_bug(_: Request, error: Exception) -> Response:
    return problem(500, f"unexpected {type(error).__name__}; see the service's log for more")


async def answer_wrong_method(request: Request, error: Exception) -> Response:
    """Answer 405 with the methods of all endpoints at the path. The framework names only the first endpoint's."""
    assert isinstance(error, HTTPException)
    app: FastAPI = request.app
    scope = {"type": "http", "path": request.url.path, "root_path": "", "headers": []}
    allowed = {
        method
        for method in METHODS
        for route in app.routes
        if route.matches(scope | {"method": method})[0] is Match.FULL
    }
    if "GET" in allowed:
        allowed.add("HEAD")
    return problem(405, error.detail, headers={"Allow": ", ".join(method for method in METHODS if method in allowed)})
