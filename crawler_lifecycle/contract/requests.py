"""What may be asked of us: to start a run, to go on with one, to stop one."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from crawler_lifecycle.contract.base import Message, Request
from crawler_lifecycle.contract.states import Trigger
from crawler_lifecycle.errors import BadInput

MOST_TASKS_EVER = 100_000
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


class RunRequest(Request):
    """Start a run of a crawler, or, with a `run_id`, go on with one that exists."""

    crawler: Name = Field(description="name of an entry of the crawler catalogue")
    trigger: Trigger = Field(default=Trigger.API, description="how the run came about")
    arguments: dict[ArgumentName, Argument] = Field(
        default_factory=dict, max_length=100, description="passed to every task, as strings"
    )
    tasks: int | None = Field(
        default=None, ge=1, le=MOST_TASKS_EVER, description="number of tasks; default: the crawler's processes"
    )
    max_parallel: int | None = Field(
        default=None, ge=1, le=MOST_TASKS_EVER, description="tasks in the cluster at once; default: the crawler's limit"
    )
    allowed_failures: float = Field(
        default=0.0, ge=0.0, le=1.0, description="share of the tasks that may fail in a run that still completes"
    )
    start_limit_seconds: Seconds | None = Field(default=None, description="how long the main job may wait to start")
    max_duration_seconds: Seconds | None = Field(default=None, description="how long the run may take in all")
    grace_seconds: Seconds | None = Field(default=None, description="from a stop until it is forced")
    cluster: ClusterName = Field(default="default", description="which of the installation's clusters")
    requested_by: Annotated[str, Field(max_length=256)] | None = Field(default=None, description="who asked")
    run_id: Annotated[int, Field(ge=1)] | None = Field(default=None, description="RunID of the run to go on with")


class StopRequest(Message):
    """End a run. Every field is optional and unknown ones are ignored: a stop is a stop."""

    force: bool = False
    actor: str | None = None
    reason: str | None = None
    door: str = "temporal"


def parse_request(payload: bytes | str) -> RunRequest:
    """The request, or a BadInput that names the field and what was expected."""
    return parse(RunRequest, payload)


def parse(model: type[M], payload: bytes | str) -> M:
    try:
        return model.model_validate_json(payload)
    except ValidationError as error:
        raise as_bad_input(error) from error


def as_bad_input(error: ValidationError) -> BadInput:
    first, *others = error.errors(include_url=False, include_context=False)
    field = ".".join(str(part) for part in first["loc"] if part != "[key]") or "request"
    more = f" (and {len(others)} more)" if others else ""
    return BadInput(field[:200], first["msg"].removeprefix("Value error, ")[:300] + more)
