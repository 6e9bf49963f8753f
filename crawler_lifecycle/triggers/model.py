"""Models for triggers: events, rules and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import LONGEST_NAME

# an event's fields, for patterns and templates
FIELDS = (
    "version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail", "replay-name",
)  # fmt: skip


class Event(BaseModel):
    """An event as EventBridge delivers it."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    id: Annotated[str, Field(max_length=LONGEST_NAME, pattern=r"^[!-~]+$")] = Field(
        description="id of the event: with its source, the key under which the event acts once"
    )
    source: Annotated[str, Field(min_length=1, max_length=256)]
    detail_type: Annotated[str, Field(min_length=1, max_length=256)] = Field(alias="detail-type")
    detail: dict[str, JsonValue]

    @property
    def key(self) -> str:
        """The key for the event's request. Two programs may choose the same id, so the source belongs to the key.

        A colon in the source is quoted: the sources `a` and `a:b` have different keys with all ids.
        """
        return f"{self.source.replace('%', '%25').replace(':', '%3A')}:{self.id}"

    @property
    def fields(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True)


class Act(StrEnum):
    """A rule's effect. The value names the rule's table with the request."""

    START_RUN = "start_run"
    STOP_RUN = "stop_run"
    START_FLOW = "start_flow"
    START_MANAGER = "start_manager"


@dataclass(frozen=True, slots=True)
class TriggerRule:
    """A pattern for events, and a request with templates."""

    name: str
    pattern: Mapping[str, Any]
    act: Act
    request: Mapping[str, Any]


class EventAnswer(Message):
    """Answer to an event, with the started flow, or with the started or stopped run."""

    act: Act
    rule: str | None = Field(description="name of the rule; none: the event started this run before")
    created: bool = Field(description="whether this request started or stopped anything; a repetition does not")
    run_id: int | None = None
    run_uid: str | None = None
    flow_id: str | None = None
