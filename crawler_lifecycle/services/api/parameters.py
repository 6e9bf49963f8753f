"""Refuses unknown and repeated query parameters.

A misspelt filter would otherwise return everything, and a repeated filter would lose its first value.
"""

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.services.problems import problem

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def refuse_unknown_parameters(request: Request) -> None:
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            known_parameters = (
                f"the parameters here are {', '.join(sorted(known))}" if known else "there are no parameters here"
            )
            raise BadInput(name[:100] or "query", f"unknown parameter: {known_parameters}")
        if len(request.query_params.getlist(name)) > 1:
            raise BadInput(name, "expected once")


async def method_not_allowed(request: Request, error: Exception) -> Response:
    """Name the methods for every endpoint with the path; the framework names the methods for the first endpoint."""
    assert isinstance(error, HTTPException)
    app: FastAPI = request.app
    scope = {"type": "http", "path": request.url.path, "root_path": "", "headers": []}
    allowed = {
        method
        for method in METHODS
        for route in app.routes
        if route.matches(scope | {"method": method})[0] is Match.FULL
    }
    allowed |= {"HEAD"} if "GET" in allowed else set()
    return problem(405, error.detail, headers={"Allow": ", ".join(method for method in METHODS if method in allowed)})
