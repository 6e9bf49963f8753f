"""Decode the inputs of workflows: a bad input ends its workflow at once, with a message that names the field.

The SDK would try forever to decode an unsuitable input. So inputs arrive undecoded, and the first lines of every
workflow decode them. `failing_with_activity_message` makes the message of a failed activity the workflow's message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.requests import StopRequest, parse
from crawler_lifecycle.temporal.converter import number_of_inputs

Model = TypeVar("Model", bound=BaseModel)
JSON = "json/plain"  # Temporal's name for the only accepted encoding
LONGEST_ENCODING = 80  # characters in an error message, since a caller may send any text
NO_INPUT = RawValue(Payload())  # default of every entry point, for a call without input


def decoded(model: type[Model], raw: RawValue) -> Model:
    """Decode a required input. A missing input, several inputs and a bad input each fail the workflow."""
    encoding = raw.payload.metadata.get("encoding", b"none").decode(errors="replace")[:LONGEST_ENCODING]
    if raw.payload == NO_INPUT.payload:
        raise _refusal(BadInput("request", "expected a JSON object, got no input"))
    _refuse_several(raw)
    if encoding != JSON:
        raise _refusal(BadInput("request", f"expected encoding {JSON}, got {encoding}"))
    return _parsed(model, raw.payload.data)


def decoded_stop(raw: RawValue) -> StopRequest:
    """Decode the stop of an update; a bad input fails only the update. No input is a stop with default values."""
    _refuse_several(raw)
    return _parsed(StopRequest, raw.payload.data or b"{}")


def _refuse_several(raw: RawValue) -> None:
    count = number_of_inputs(raw.payload)
    if count > 1:
        raise _refusal(BadInput("request", f"expected one input, got {count}"))


def _parsed(model: type[Model], data: bytes) -> Model:
    try:
        return parse(model, data)
    except BadInput as error:
        raise _refusal(error) from error


def _refusal(error: BadInput) -> ApplicationError:
    return ApplicationError(error.message, type="BadInput", non_retryable=True)


@contextmanager
def failing_with_activity_message() -> Iterator[None]:
    """Raise an activity's failure in the block under the activity's own message.

    Otherwise Temporal's tools show "Activity task failed" as the workflow's failure, and hide the message in its cause.
    """
    try:
        yield
    except ActivityError as error:
        if not isinstance(error.cause, ApplicationError):
            raise
        failure = error.cause
        raise ApplicationError(failure.message, type=failure.type, non_retryable=failure.non_retryable) from error
