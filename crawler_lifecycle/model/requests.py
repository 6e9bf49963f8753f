"""Models for requests by people and programs to start, resume or stop a run, and the checks at the doors."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Self, TypeVar

from annotated_types import MaxLen
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.base.limits import A_YEAR
from crawler_lifecycle.base.refusals import expectation, field_name
from crawler_lifecycle.base.requesters import LONGEST_REQUESTER
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.retries import RequestedRetries, Retries
from crawler_lifecycle.model.states import Report, Trigger

MOST_TASKS_EVER = 100_000  # a setting may allow fewer tasks in a run
MOST_ARGUMENT_BYTES = 64 * 1024  # all arguments, or settings, reach a task in a single variable; Linux allows 128 KiB
MOST_LABELS = 20
PROJECT = "project:"  # start for labels with a project, from crawl managers
MOST_TAGS = 100  # of a run
LARGEST_MEMORY_FACTOR = 16.0
RETRIES = "further attempts of failed tasks; default: the crawler's"  # description of a field
Model = TypeVar("Model", bound=BaseModel)


def _printable(text: str) -> str:
    """Return the text. ValueError if the text is blank or contains control characters."""
    if not text.strip():
        raise ValueError("must not be blank")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError("must not contain control characters")
    return text


Name = Annotated[str, Field(min_length=1, max_length=128, examples=["bookshop"]), AfterValidator(_printable)]
ClusterName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
ArgumentName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]
Argument = Annotated[str, Field(max_length=4096)]
Seconds = Annotated[int, Field(ge=1, le=A_YEAR)]
Label = Annotated[
    str,
    Field(max_length=128, pattern=r"^[a-z0-9][a-z0-9_.-]*:\S+$", examples=["site:example.com"]),  # kind and value
    AfterValidator(_printable),
]
MOST_PRIORITY = 100
Priority = Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]


def _no_number(value: object) -> object:
    """Refuse a number: pydantic reads numbers as seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and not re.match(r"\d{4}-", value)):
        raise PydanticCustomError("datetime_parsing", "a number is no time")
    return value


# a time with a time zone, within every database's range
Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC)),
    BeforeValidator(_no_number),
]


class RunParameters(Message):
    """Parameters for a run."""

    crawler: Name = Field(description="name of an entry in the crawler catalogue")
    trigger: Trigger = Field(default=Trigger.API, description="how the run came about")
    arguments: dict[ArgumentName, Argument] = Field(
        default_factory=dict,
        max_length=100,
        description="arguments for every task, as strings",
        examples=[{"site": "https://books.example"}],
    )
    settings: dict[ArgumentName, Argument] = Field(
        default_factory=dict,
        max_length=100,
        description="settings of the crawl framework for every task, as strings, such as Scrapy's",
    )
    tasks: int | None = Field(
        default=None, ge=1, le=MOST_TASKS_EVER, description="number of tasks; default: the crawler's processes"
    )
    max_parallel: int | None = Field(
        default=None, ge=1, le=MOST_TASKS_EVER, description="tasks in the cluster at once; default: the crawler's limit"
    )
    allowed_failures: float = Field(
        default=0.0, ge=0.0, le=1.0, description="share of tasks that may fail in a COMPLETED run"
    )
    start_limit_seconds: Seconds | None = Field(default=None, description="longest wait for the start of the main job")
    max_duration_seconds: Seconds | None = Field(default=None, description="longest duration of the run")
    grace_seconds: Seconds | None = Field(default=None, description="time from a stop until the force")
    retries: Retries | None = Field(default=None, description=RETRIES)
    memory_factor: float = Field(
        default=1.0,
        gt=0.0,
        le=LARGEST_MEMORY_FACTOR,
        description="memory of every task, times the memory in the crawler's entry, if the entry has any",
    )
    labels: list[Label] = Field(
        default_factory=list,
        max_length=MOST_LABELS,
        description="labels such as `site:example.com`, beside the crawler's: limits and pauses may be set for a label",
    )
    priority: Priority | None = Field(
        default=None, description="runs with a higher priority are admitted first; default: the crawler's, else 0"
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]] = Field(
        default_factory=list, max_length=MOST_TAGS, description="free words by which runs are found in lists"
    )
    report: Report = Field(
        default=Report.ALL,
        description="notices of the run: `all` (start, progress, end), `end` (the closing notice alone) or `none`; "
        "events and archives do not depend on it",
    )
    cluster: ClusterName = Field(
        default="default", description="cluster of the installation; the only cluster at present is `default`"
    )
    requested_by: Annotated[str, Field(max_length=LONGEST_REQUESTER)] | None = Field(
        default=None, description="requester's name"
    )


class FlowLink(Message):
    """A run's place in its flow: a crawl's attempt."""

    flow_uid: Annotated[str, Field(max_length=36)]
    flow_id: Annotated[str, Field(max_length=128)]
    member: Annotated[int, Field(ge=0)]
    path: str = Field(description="the member's path in the flow")
    generation: Annotated[int, Field(ge=1)]
    attempt: Annotated[int, Field(ge=1)]
    tells_tasks: bool = Field(default=False, description="whether the flow is notified when a task ends")
    waits_for_archive: bool = Field(default=False, description="whether the flow is notified when the archive is ready")
    manager: int | None = Field(
        default=None, description="number of the manager with the crawl; the flow is not notified"
    )


class AcceptedRequest(RunParameters):
    """Request between our own processes, after its validation at a door. Fields from a newer version are ignored."""

    flow: FlowLink | None = Field(default=None, description="place in a flow; set by the flow's supervisor alone")
    run_id: Annotated[int, Field(ge=1)] | None = Field(default=None, description="RunID of the run to resume")
    reopen: bool = Field(default=False, description="with run_id: give the tasks of a FAILED run another attempt")

    @property
    def flow_awaiting_archive(self) -> FlowLink | None:
        """The place in a flow, if the flow waits for the run's archive."""
        return self.flow if self.flow is not None and self.flow.waits_for_archive else None


class KeptRequest(AcceptedRequest):
    """Request as the run's row keeps the request: the crawler's or the installation's defaults fill in open fields."""

    left_open: list[str] = Field(
        default=[], description="fields that the request left open, and that the crawler or the installation filled in"
    )


FIELDS_OF_A_RESUME = {"crawler", "trigger", "requested_by", "run_id", "reopen"}  # a resume takes only these fields


class RunRequest(AcceptedRequest):
    """Start a crawler's run, or, with a `run_id`, resume a run. An unknown field or a wrong type is an error."""

    model_config = Request.model_config

    retries: RequestedRetries | None = Field(default=None, description=RETRIES)

    @field_validator("arguments", "settings")
    @classmethod
    def _fit_into_a_variable(cls, values: dict[str, str]) -> dict[str, str]:
        zero = next((name for name, value in values.items() if "\0" in value), None)
        if zero is not None:
            raise ValueError(f"{zero!r} contains a zero byte, and no program can receive it")
        size = len(json.dumps(values))
        if size > MOST_ARGUMENT_BYTES:
            raise ValueError(f"are {size} bytes as JSON, at most {MOST_ARGUMENT_BYTES} reach a task")
        return values

    @model_validator(mode="after")
    def _resumes_without_new_values(self) -> Self:
        """Refuse a combination without sense. The error's type is the field's name, for `_bad_input`."""
        if self.run_id is None:
            if self.reopen:
                raise PydanticCustomError("reopen", "only together with the run_id of a run that failed")
            return self
        fields = RunRequest.model_fields
        for name in sorted(fields.keys() - FIELDS_OF_A_RESUME):
            if getattr(self, name) != fields[name].get_default(call_default_factory=True):
                raise PydanticCustomError(name, "not together with run_id: a run continues as it was started")
        return self


class StopRequest(Message):
    """Stop a run. Every field is optional, and unknown fields are ignored."""

    force: bool = Field(default=False, description="do not wait for the grace period")
    actor: str | None = Field(
        default=None, max_length=LONGEST_REQUESTER, description="person or program that requests the stop"
    )
    reason: str | None = Field(default=None, max_length=1024, description="reason of the stop, for the run's timeline")
    door: str = Field(default="temporal", max_length=64, description="door through which the stop came")
    asked_at: Moment | None = Field(default=None, description="time of the request, which distinguishes equal stops")


def refuse_flow(request: RunRequest) -> None:
    """Raise BadInput for a request from outside with a place in a flow, since only a supervisor gives places."""
    if request.flow is not None:
        raise BadInput("flow", "is set by a flow's supervisor alone")


def any_stop(payload: bytes) -> StopRequest:
    """Return a stop for any payload, since no stop may get lost.

    Valid fields are kept, too long texts are cut, and invalid fields get their defaults.
    """
    valid: dict[str, object] = {}
    for name, value in _json_object(payload).items():
        field = StopRequest.model_fields.get(name)
        if field is None:
            continue
        longest = next((limit.max_length for limit in field.metadata if isinstance(limit, MaxLen)), None)
        candidate = {name: value[:longest] if isinstance(value, str) else value}
        if _is_valid(candidate):
            valid |= candidate
    return StopRequest.model_validate(valid)


def _json_object(payload: bytes) -> dict[str, object]:
    """Return the JSON object in the payload; an empty object if there is none."""
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_valid(stop: dict[str, object]) -> bool:
    try:
        StopRequest.model_validate(stop)
    except ValidationError:
        return False
    return True


def parse(model: type[Model], payload: bytes | str) -> Model:
    """Return the model with the payload's values; raise BadInput, with the field, if the payload does not fit."""
    with refusals_as_bad_input():
        return model.model_validate_json(payload)


@contextmanager
def refusals_as_bad_input() -> Iterator[None]:
    """Raise BadInput, with the field and the expected value, where a model refuses its values."""
    try:
        yield
    except ValidationError as error:
        raise _bad_input(error) from error


def _bad_input(error: ValidationError) -> BadInput:
    """Return the errors as BadInput."""
    mistakes = []
    for mistake in error.errors(include_url=False):
        # an error about the whole model has no location; `RunRequest` puts the field's name into the type
        whole = mistake["type"] if mistake["type"] in RunRequest.model_fields else "request"
        field = field_name(mistake["loc"]) or whole
        mistakes.append((field, expectation(mistake)))
    return BadInput(*mistakes[0], *mistakes[1:])
