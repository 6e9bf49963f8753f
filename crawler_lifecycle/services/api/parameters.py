"""Query parameters: refuses unknown and repeated parameters, and makes and reads the cursors of list pages.

A misspelt filter would otherwise return everything, and a repeated filter would lose its first value. A cursor says
where the next page begins, and is valid only for the same list and filters.
"""

import base64
import hashlib
import re

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.services.problems import problem

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
DIGEST_LENGTH = 12


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


def cursor_to(place: int, about: str) -> str:
    """Return the cursor for the place. `about` names the list: its installation and filters."""
    plain = f"{place}.{_digest(place, about)}"
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def place_in(cursor: str, about: str) -> int:
    """Return the place. BadInput: the cursor belongs to another installation, list or filter, or was never issued."""
    match = re.fullmatch(rf"(\d{{1,18}})\.([0-9a-f]{{{DIGEST_LENGTH}}})", _decoded(cursor))
    if not match or _digest(int(match[1]), about) != match[2]:
        raise BadInput("cursor", "expected the `next` of the page before, asked for with the same filters")
    return int(match[1])


def _decoded(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        return ""


def _digest(place: int, about: str) -> str:
    return hashlib.sha256(f"{place}:{about}".encode()).hexdigest()[:DIGEST_LENGTH]
