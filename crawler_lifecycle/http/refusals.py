"""Refuses requests that no endpoint accepts: with unknown or repeated query parameters, or with a wrong method.

A misspelt filter would otherwise return everything, and a repeated filter would lose its first value. A parameter with
a list of values may be repeated.
"""

from collections.abc import Iterator
from typing import get_origin

from fastapi import FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from starlette.exceptions import HTTPException
from starlette.routing import Match

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.http.problems import problem

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
LONGEST_NAME = 100  # characters of an unknown parameter's name in the answer


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise BadInput for a query parameter that the endpoint does not have, or that comes more than once."""
    may_be_repeated = dict(_query_parameters(request.scope["route"].dependant))
    known = may_be_repeated.keys()
    for name in request.query_params:
        if name not in known:
            known_parameters = (
                f"the parameters here are {', '.join(sorted(known))}" if known else "there are no parameters here"
            )
            raise BadInput(name[:LONGEST_NAME] or "query", f"unknown parameter: {known_parameters}")
        if not may_be_repeated[name] and len(request.query_params.getlist(name)) > 1:
            raise BadInput(name, "expected once")


def _query_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Yield the names for an endpoint's query parameters, each with whether it may be repeated."""
    for parameter in dependant.query_params:
        yield parameter.alias, get_origin(parameter.field_info.annotation) is list
    for part in dependant.dependencies:
        yield from _query_parameters(part)


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
