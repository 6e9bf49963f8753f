"""Payload converter for workflows: protects workflows from callers with several inputs, and from newer callers.

Every workflow, signal, update and query of this project has a method with a single input. A caller may send several
payloads all the same. The SDK then calls the method with too many arguments, and the TypeError fails the workflow task:
Temporal retries the task forever, and neither a stop nor a cancel reaches the run.

The SDK passes no type hints to the converter if the number of payloads differs from the number of inputs. The converter
then returns only the first payload, undecoded and marked with the number of payloads. The method refuses such an input
(see `inputs.py`).

Requests refuse unknown fields, so they are sent without defaults: in an upgrade, an older worker accepts a newer
process's request, unless the request uses an unknown field.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter

INPUTS = "crawler-lifecycle-inputs"  # key of the mark in a payload's metadata
LONGEST_NUMBER = 9  # digits; a caller may send any metadata


ENCODINGS = tuple(PydanticPayloadConverter().converters.values())


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
