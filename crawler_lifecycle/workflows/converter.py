"""Payload converter for workflows: an entry point that is called with several inputs gets a single input.

Every workflow, signal, update and query takes one input. The SDK calls its method with as many arguments as there are
payloads, and too many arguments raise TypeError, which fails the workflow task: Temporal tries the task for ever, and
neither stop nor cancel reaches the run. Type hints do not help (the SDK drops them where the numbers differ), and
dynamic methods (with any number of inputs) would stand in for the named methods. So where payloads and hints
differ in number, the first payload stands for all, undecoded and marked with their number, and the method decides.
"""

from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter

INPUTS = "crawler-lifecycle-inputs"  # metadata on a payload that stands for several payloads


class OneInputConverter(PydanticPayloadConverter):
    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        if len(payloads) > 1 and not type_hints:
            return [RawValue(_marked(payloads))]
        return super().from_payloads(payloads, type_hints)

    def from_payloads_wrapper(self, payloads: Payloads | None) -> list[Any]:
        """Convert details of failures: there may be several, all without a hint."""
        return super().from_payloads(payloads.payloads) if payloads else []


def number_of_inputs(payload: Payload) -> int:
    """Return how many payloads the payload stands for."""
    number = payload.metadata.get(INPUTS, b"")[:9]
    return int(number) if number.isdigit() else 1


def _marked(payloads: Sequence[Payload]) -> Payload:
    marked = Payload()
    marked.CopyFrom(payloads[0])
    marked.metadata[INPUTS] = str(len(payloads)).encode()
    return marked


lifecycle_data_converter = DataConverter(payload_converter_class=OneInputConverter)
