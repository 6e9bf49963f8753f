"""Is the API's document what the API is, and complete?"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter

from crawler_lifecycle.processes.api import ROUTERS
from crawler_lifecycle.web.app import openapi_document
from tests.kit.service.apis import DOCUMENT


def test_the_document_is_up_to_date() -> None:
    assert json.loads(DOCUMENT.read_text()) == openapi_document(ROUTERS), (
        "run `python -m workers.api --openapi > docs/api-openapi.json`"
    )


def test_every_operation_describes_its_answers_and_errors() -> None:
    document: Any = openapi_document(ROUTERS)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if not path.startswith("/v1/"):
                continue
            responses = operation["responses"]
            assert {"401", "403", "429", "503"} <= responses.keys(), path
            good = [answer for status, answer in responses.items() if status < "300"]
            contents = [content for answer in good for content in answer["content"].values()]
            assert all(content["schema"] for content in contents), path
            bad = [answer["content"] for status, answer in responses.items() if status >= "400"]
            assert all(list(content) == ["application/problem+json"] for content in bad), path


def test_the_examples_of_fields_are_accepted() -> None:
    examples = [
        (f"{model.__name__}.{name}", field, example)
        for model in all_models(BaseModel)
        if model.__module__.startswith("crawler_lifecycle.")
        for name, field in model.model_fields.items()
        for example in field.examples or ()
    ]
    assert len(examples) > 20
    for where, field, example in examples:
        annotation: Any = field.annotation
        adapter = TypeAdapter[object](Annotated[annotation, *field.metadata] if field.metadata else annotation)
        assert adapter.validate_python(example) is not None, where


def all_models(base: type[BaseModel]) -> set[type[BaseModel]]:
    return {base, *(model for child in base.__subclasses__() for model in all_models(child))}
