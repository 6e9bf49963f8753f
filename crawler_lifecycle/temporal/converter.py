"""Convert and decode the inputs of workflows, so that neither bad inputs nor newer callers block a workflow.

Every workflow, signal, update and query of this project has a method with a single input. A caller may send several
payloads all the same. The SDK then calls the method with too many arguments, and the TypeError fails the workflow task:
Temporal retries the task forever, and neither a stop nor a cancel reaches the run.

The SDK passes no type hints to the converter if the number of payloads differs from the number of inputs. The converter
then returns only the first payload, undecoded and marked with the number of payloads, and `decoded` refuses such an
input.

The SDK would also try forever to decode an unsuitable input. So inputs arrive undecoded, and the first lines of every
workflow decode them: a bad input ends its workflow at once, with a message that names the field.

Requests refuse unknown fields, so they are sent without defaults: in an upgrade, an older worker accepts a newer
process's request, unless the request uses an unknown field.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter
from temporalio.exceptions import ActivityError, ApplicationError

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.requests import StopRequest, parse

INPUTS = "crawler-lifecycle-inputs"  # key of the mark in a payload's metadata
LONGEST_NUMBER = 9  # digits; a caller may send any metadata


ENCODINGS = tuple(PydanticPayloadConverter().converters.values())
Model = TypeVar("Model", bound=BaseModel)
JSON = "json/plain"  # Temporal's name for the only accepted encoding
LONGEST_ENCODING = 80  # characters in an error message, since a caller may send any text
NO_INPUT = RawValue(Payload())  # default of every entry point, for a call without input


class OneInputConverter(PydanticPayloadConverter):
    def __init__(self) -> None:
        """Share the converters of all encodings, because the SDK makes a converter twice for every workflow task."""
        CompositePayloadConverter.__init__(self, *ENCODINGS)

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return super().to_payloads([_without_defaults(value) for value in values])

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Decode payloads. Several payloads without type hints become a single marked input."""
        if len(payloads) > 1 and not type_hints:
            return [RawValue(_marked(payloads))]
        return super().from_payloads(payloads, type_hints)

    def from_payloads_wrapper(self, payloads: Payloads | None) -> list[Any]:
        """Decode the details of a failure: several payloads without type hints stay several."""
        return super().from_payloads(payloads.payloads) if payloads else []


def number_of_inputs(payload: Payload) -> int:
    """Return the number of payloads from the caller: the number in the mark, or 1 without a mark."""
    number = payload.metadata.get(INPUTS, b"")[:LONGEST_NUMBER]
    return int(number) if number.isdigit() else 1


def _without_defaults(value: Any) -> Any:
    """Return a strict request as a dict without defaults, and any other value as it is."""
    is_strict = isinstance(value, BaseModel) and value.model_config.get("extra") == "forbid"
    return value.model_dump(mode="json", exclude_defaults=True) if is_strict else value


def _marked(payloads: Sequence[Payload]) -> Payload:
    marked = Payload()
    marked.CopyFrom(payloads[0])
    marked.metadata[INPUTS] = str(len(payloads)).encode()
    return marked


lifecycle_data_converter = DataConverter(payload_converter_class=OneInputConverter)


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
