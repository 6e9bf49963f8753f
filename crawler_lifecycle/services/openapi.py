"""Helpers for the OpenAPI documents of the HTTP API and the scheduler service."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.services.problems import MEDIA_TYPE

Responses = dict[int | str, dict[str, Any]]


def problems(**descriptions: str) -> Responses:
    """Return error responses by status, written `_409="..."`."""
    return {
        int(status.removeprefix("_")): {"model": Problem, "description": description}
        for status, description in descriptions.items()
    }


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with problems under their own media type."""
    description = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    for path in description["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400 and "application/json" in response.get("content", {}):
                    response["content"] = {MEDIA_TYPE: response["content"]["application/json"]}
    return description
