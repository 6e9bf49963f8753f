"""Makes the FastAPI applications of the HTTP API and the scheduler service, and their OpenAPI documents."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.services.problems import MEDIA_TYPE, answer_with_problems

Responses = dict[int | str, dict[str, Any]]
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


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
