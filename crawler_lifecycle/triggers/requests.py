"""A rule's request: the body of the API's own endpoint for the same command, with the event's values filled in."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json

from crawler_lifecycle.base.refusals import expectation, field_name
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.commands.definitions import read_definition
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.requests import StartManager
from crawler_lifecycle.model.requests import parse
from crawler_lifecycle.runs.http.messages import StartRequest, StopBody
from crawler_lifecycle.triggers.model import Act, Event, TriggerRule
from crawler_lifecycle.triggers.rules import Mistakes, is_template, rendered, template_mistakes

SET_HERE = ("trigger", "requested_by", "actor", "door")  # fields for the record, which name the rule
TEXTS = {Act.START_RUN: ("arguments", "settings", "tags"), Act.START_MANAGER: ("arguments",)}  # fields of texts alone


class StopRunRequest(StopBody):
    run: int | Annotated[str, Field(max_length=64)] = Field(description="RunID or run_uid")


AnyRequest = StartRequest | StopRunRequest | FlowDefinition | StartManager


def request_of(rule: TriggerRule, event: Event) -> AnyRequest:
    """Return the rule's request for the event. BadInput, with the place in the mapping, for an unusable value."""
    fields, texts = event.fields, TEXTS.get(rule.act, ())
    with _naming(rule):
        content = {
            name: rendered(value, fields, name, as_text=name in texts)
            for name, value in with_key(rule.act, rule.request, event.key).items()
        }
        return _read(rule.act, content)


def request_mistakes(act: Act, request: Any) -> Mistakes:
    """Yield mistakes in the file's request. A template's value is unknown without an event."""
    if not isinstance(request, Mapping):
        yield act, "expected a table"
        return
    yield from ((f"{act}.{name}", "is set by the rule's name") for name in SET_HERE if name in request)
    yield from template_mistakes(request, act)
    try:
        _read(act, with_key(act, {name: value for name, value in request.items() if name not in SET_HERE}, "key"))
    except BadInput as error:
        library = error.__cause__
        if not isinstance(library, ValidationError):
            yield from ((f"{act}.{field}", expected) for field, expected in error.mistakes)
            return
        for mistake in library.errors(include_url=False):
            if not is_template(mistake["input"]):
                yield ".".join(part for part in (act, field_name(mistake["loc"])) if part), expectation(mistake)


def with_key(act: Act, request: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the request with the event's key as the flow's id, unless the mapping gives an id of its own."""
    name = {Act.START_FLOW: "id", Act.START_MANAGER: "family"}.get(act)
    return request if name is None else {name: key, **request}


def _read(act: Act, content: Mapping[str, Any]) -> AnyRequest:
    body = to_json(content)
    match act:
        case Act.START_RUN:
            return parse(StartRequest, body)
        case Act.STOP_RUN:
            return parse(StopRunRequest, body)
        case Act.START_FLOW:
            return read_definition(body)
        case Act.START_MANAGER:
            return parse(StartManager, body)


def shown(request: AnyRequest) -> dict[str, Any]:
    """Return the fields that the mapping gives, as JSON."""
    assert isinstance(request, BaseModel)
    return request.model_dump(mode="json", exclude_unset=True)


@contextmanager
def _naming(rule: TriggerRule) -> Iterator[None]:
    """Put the place in the mapping in front of the fields in an error."""
    try:
        yield
    except BadInput as error:
        first, *more = [(f"rules.{rule.name}.{rule.act}.{field}", expected) for field, expected in error.mistakes]
        raise BadInput(*first, *more) from error
