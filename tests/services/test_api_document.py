"""Is the API's document what the API is, and complete?"""

import json
from typing import Any

from crawler_lifecycle.services.api.app import openapi_document
from crawler_lifecycle.services.api.audits import AuditBody
from crawler_lifecycle.services.api.document import (
    ADD_TASKS_BODY,
    AUDIT_BODY,
    LIMIT_BODY,
    RESUME_BODY,
    SCOPE_BODY,
    SCOPE_PAUSE_BODY,
    START_BODY,
    STOP_BODY,
)
from crawler_lifecycle.services.api.messages import (
    LimitBody,
    MoreTasks,
    ResumeBody,
    ScopeBody,
    ScopePauseBody,
    StartRequest,
    StopBody,
)
from tests.apis import DOCUMENT
from workers.api import ROUTERS


def test_the_document_is_up_to_date() -> None:
    assert json.loads(DOCUMENT.read_text()) == openapi_document(ROUTERS), (
        "run `python -m workers.api --openapi > docs/api-openapi.json`"
    )


def test_every_operation_has_an_example_and_tells_its_errors() -> None:
    document: Any = openapi_document(ROUTERS)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if not path.startswith("/v1/"):
                continue
            responses = operation["responses"]
            assert {"401", "403", "429", "503"} <= responses.keys(), path
            good = [answer for status, answer in responses.items() if status < "300"]
            assert all("example" in content for answer in good for content in answer["content"].values()), path
            asked = operation.get("requestBody", {"content": {}})["content"].values()
            assert all(content["examples"] for content in asked), path
            bad = [answer["content"] for status, answer in responses.items() if status >= "400"]
            assert all(list(content) == ["application/problem+json"] for content in bad), path


def test_the_examples_are_accepted() -> None:
    for example in (START_BODY.openapi_examples or {}).values():
        StartRequest.model_validate(example["value"])
    for body, message in (
        (STOP_BODY, StopBody),
        (ADD_TASKS_BODY, MoreTasks),
        (RESUME_BODY, ResumeBody),
        (AUDIT_BODY, AuditBody),
        (LIMIT_BODY, LimitBody),
        (SCOPE_PAUSE_BODY, ScopePauseBody),
        (SCOPE_BODY, ScopeBody),
    ):
        for example in (body.openapi_examples or {}).values():
            message.model_validate(example["value"])
