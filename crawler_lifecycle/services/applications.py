"""Makes the FastAPI applications for the API and the scheduler service.

The errors of an application have the type application/problem+json, and its OpenAPI document says so.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.services.problems import MEDIA_TYPE, answer_with_problems

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Health(Message):
    status: str


def new_app(title: str, description: str, lifespan: Lifespan) -> FastAPI:
    """Return an application without routes, whose errors are problems."""
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
    app.openapi = partial(_openapi_document, app)  # type: ignore[method-assign]  # FastAPI's own way of changing it
    return app


def _openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document. FastAPI documents errors as application/json; the media type is corrected here."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                is_error = int(status) >= HTTPStatus.BAD_REQUEST
                if is_error and "application/json" in response.get("content", {}):
                    response["content"] = {MEDIA_TYPE: response["content"]["application/json"]}
    return document
