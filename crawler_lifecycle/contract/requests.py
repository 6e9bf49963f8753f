"""Requests by people and programs to start, resume or stop a run, and checks for these requests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Self, TypeVar

from annotated_types import MaxLen
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from crawler_lifecycle.contract.base import Message, Request
from crawler_lifecycle.contract.states import Trigger
from crawler_lifecycle.errors import BadInput

MOST_TASKS_EVER = 100_000
MOST_ARGUMENT_BYTES = 64 * 1024  # all arguments reach a task in a single variable; Linux limits a variable to 128 KiB
A_YEAR = 366 * 24 * 3600
M = TypeVar("M", bound=BaseModel)


def _printable(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError("must not contain control characters")
    return text


Name = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]
ClusterName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
ArgumentName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_printable)]
Argument = Annotated[str, Field(max_length=4096)]
Seconds = Annotated[int, Field(ge=1, le=A_YEAR)]
# with a time zone, and within every database's range
Moment = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC))]


class RunParameters(Message):
    """Parameters for a run."""

    crawler: Name = Field(description="name of an entry in the crawler catalogue")
    trigger: Trigger = Field(default=Trigger.API, description="how the run came about")
    arguments: dict[ArgumentName, Argument] = Field(
        default_factory=dict, max_length=100, description="arguments for every task, as strings"
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
    cluster: ClusterName = Field(
        default="default", description="cluster of the installation; the only cluster at present is `default`"
    )
    requested_by: Annotated[str, Field(max_length=256)] | None = Field(default=None, description="requester's name")


class AcceptedRequest(RunParameters):
    """Request after its validation at the door. Fields from a newer version are ignored."""

    run_id: Annotated[int, Field(ge=1)] | None = Field(default=None, description="RunID of the run to resume")
    reopen: bool = Field(default=False, description="with run_id: give the tasks of a FAILED run another attempt")


class KeptRequest(AcceptedRequest):
    """Request in the run's database row. All open fields are filled in."""

    left_open: list[str] = Field(
        default=[], description="fields that the request left open, and that the crawler or the installation filled in"
    )


class RunRequest(AcceptedRequest):
    """Start a run of a crawler, or, with a `run_id`, resume a run. Strict, as the request comes from outside."""

    model_config = Request.model_config

    @field_validator("arguments")
    @classmethod
    def _fit_together(cls, arguments: dict[str, str]) -> dict[str, str]:
        size = len(json.dumps(arguments))
        if size > MOST_ARGUMENT_BYTES:
            raise ValueError(f"are {size} bytes as JSON, at most {MOST_ARGUMENT_BYTES} reach a task")
        return arguments

    @model_validator(mode="after")
    def _goes_on_as_it_was_begun(self) -> Self:
        if self.run_id is None and self.reopen:
            raise PydanticCustomError("reopen", "only together with the run_id of a run that failed")
        given = [
            name
            for name in OF_A_NEW_RUN
            if getattr(self, name) != RunRequest.model_fields[name].get_default(call_default_factory=True)
        ]
        if self.run_id is not None and given:
            raise PydanticCustomError(min(given), "not together with run_id: a run goes on as it was begun")
        return self


OF_A_NEW_RUN = RunRequest.model_fields.keys() - {"crawler", "trigger", "requested_by", "run_id", "reopen"}


class StopRequest(Message):
    """Stop a run. Every field is optional, and unknown fields are ignored."""

    force: bool = Field(default=False, description="do not wait for the grace period")
    actor: str | None = Field(default=None, max_length=256, description="person or program that asks")
    reason: str | None = Field(default=None, max_length=1024, description="words for the record")
    door: str = Field(default="temporal", max_length=64, description="door of the stop")
    asked_at: Moment | None = Field(default=None, description="time of the request, which tells equal stops apart")


def any_stop(payload: bytes) -> StopRequest:
    """Return a stop for any payload, since no stop may get lost. Valid fields are kept, invalid fields are dropped."""
    try:
        given = json.loads(payload)
    except (ValueError, RecursionError):
        given = None
    kept: dict[str, object] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        field = StopRequest.model_fields.get(name)
        if field is None:
            continue
        longest = next((limit.max_length for limit in field.metadata if isinstance(limit, MaxLen)), None)
        candidate = {name: value[:longest] if isinstance(value, str) else value}
        if _is_valid(candidate):
            kept |= candidate
    return StopRequest.model_validate(kept)


def _is_valid(stop: dict[str, object]) -> bool:
    try:
        StopRequest.model_validate(stop)
    except ValidationError:
        return False
    return True


def parse(model: type[M], payload: bytes | str) -> M:
    """Return the request; raise BadInput with the field and the expected value."""
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
    first, *others = error.errors(include_url=False, include_context=False)
    field = ".".join(str(part) for part in first["loc"] if part != "[key]")  # pydantic's mark for a dict's key
    if not field:  # an error about the whole model has no location; `RunRequest` puts the field's name into the type
        field = first["type"] if first["type"] in RunRequest.model_fields else "request"
    more = f" (and {len(others)} more)" if others else ""
    return BadInput(field[:200], first["msg"].removeprefix("Value error, ")[:300] + more)
