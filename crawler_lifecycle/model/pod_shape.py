"""Models for the pod shape, the part a catalogue entry sets in the pods for its jobs.

Every value has the syntax required by the Kubernetes API, so a wrong value is an error before a Job exists. Rules for
keys are in `clusters/rules.py`.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import A_YEAR

MOST_KEYS = 100
MOST_TOLERATIONS = 100
MOST_ANNOTATION_BYTES = 64 * 1024  # Kubernetes allows 256 KiB; every deployment request carries the annotations
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
NUMBER = r"\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
SUFFIX = r"([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?"


@dataclass(frozen=True, slots=True)
class Syntax:
    """Syntax for a text, as an annotation for a field's type. `expected` completes the message about a wrong text."""

    pattern: str
    longest: int
    expected: str

    def check(self, text: str) -> str:
        """Return the text. ValueError if the text does not have the syntax."""
        if len(text) > self.longest or not re.fullmatch(self.pattern, text):
            raise ValueError(f"expected {self.expected}, not {text!r}")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^({self.pattern})$", "maxLength": self.longest}


QUANTITY = Syntax(NUMBER + SUFFIX, 64, "a quantity such as 500m, 2 or 1.5Gi")
Quantity = Annotated[str, QUANTITY]
Key = Annotated[
    str,
    Syntax(
        f"({SUBDOMAIN}/)?{NAME}",
        253,
        "a key such as example.com/team: a domain in lower case, a slash, up to 63 letters, digits, '-', '_', '.'",
    ),
]
LabelValue = Annotated[
    str, Syntax(f"({NAME})?", 63, "at most 63 letters, digits, '-', '_', '.', with a letter or digit at both ends")
]
ObjectName = Annotated[str, Syntax(SUBDOMAIN, 253, "an object's name: lower case letters, digits, '-' and '.'")]
QueueName = Annotated[str, Syntax(SUBDOMAIN, 63, "a queue's name: at most 63 lower case letters, digits, '-' and '.'")]


class Toleration(Message):
    """Toleration for a taint, so pods may be placed on nodes with the taint."""

    key: Key = Field(description="key of the taint")
    operator: Literal["Equal", "Exists"] = Field(default="Equal", description="`Exists` tolerates every value")
    value: LabelValue | None = Field(default=None, description="value of the taint, for `Equal`; none: empty")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="effect of the taint; none: every effect"
    )
    seconds: int | None = Field(
        default=None, ge=0, le=A_YEAR, description="time until a `NoExecute` taint evicts the pod; none: never"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.operator == "Exists" and self.value:
            raise ValueError("value: not together with the operator Exists")
        if self.seconds is not None and self.effect != "NoExecute":
            raise ValueError("seconds: only together with the effect NoExecute")
        return self


class PodShape(Message):
    """Shape for the pods on Kubernetes; the local cluster only records the shape."""

    labels: dict[Key, LabelValue] = Field(
        default_factory=dict, max_length=MOST_KEYS, description="labels for Jobs and pods, beside our own labels"
    )
    annotations: dict[Key, str] = Field(default_factory=dict, max_length=MOST_KEYS, description="annotations for pods")
    node_selector: dict[Key, LabelValue] = Field(
        default_factory=dict, max_length=MOST_KEYS, description="labels that a node must have"
    )
    tolerations: list[Toleration] = Field(
        default_factory=list, max_length=MOST_TOLERATIONS, description="taints of nodes that pods tolerate"
    )
    priority_class: ObjectName | None = Field(default=None, description="name of an existing PriorityClass")
    queue: QueueName | None = Field(default=None, description="name of a Kueue LocalQueue in the namespace of the jobs")

    @field_validator("annotations")
    @classmethod
    def _are_small(cls, annotations: dict[str, str]) -> dict[str, str]:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > MOST_ANNOTATION_BYTES:
            raise ValueError(f"are {size} bytes, at most {MOST_ANNOTATION_BYTES} are allowed")
        return annotations
