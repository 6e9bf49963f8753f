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

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.http.problems import MEDIA_TYPE, answer_with_problems

# responses of every endpoint with a body, unless the endpoint describes the status itself
BODY_REFUSALS = {
    "400": {"description": "The body is not JSON in UTF-8."},
    "413": {"description": "The body is too large."},
    "415": {"description": "The body is not `application/json`, or is packed."},
}
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
        servers=[{"url": "/", "description": "the address from which this document was read"}],
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would be absolute, with the client's own Host header as its address
        generate_unique_id_function=lambda route: route.name,
        telemetry={"auto_configure": False},  # variables in the environment must not start an export of telemetry
    )
    answer_with_problems(app)
    app.openapi = partial(_openapi_document, app)  # type: ignore[method-assign]  # FastAPI's own way of changing it
    return app


def _openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the errors as this application answers them.

    FastAPI documents errors as application/json, and an endpoint's mistakes in a shape of its own.
    """
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, servers=app.servers
    )
    for path in document["paths"].values():
        for operation in path.values():
            operation["summary"] = operation["operationId"].replace("_", " ").capitalize()
            responses = operation["responses"]
            if "requestBody" in operation:
                responses |= {status: responses.get(status, refusal) for status, refusal in BODY_REFUSALS.items()}
            for status, response in responses.items():
                if int(status) >= HTTPStatus.BAD_REQUEST:
                    response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    return document
