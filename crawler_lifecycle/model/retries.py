"""Models for retries: how many further attempts a task gets after which failures, and a task's next attempt."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from crawler_lifecycle.base.base import Message, Request

MOST_RETRIES = 100


class FailureKind(StrEnum):
    """Kind of failure; another attempt may mend the failure."""

    INFRASTRUCTURE = "infrastructure"  # the cluster ended the job or lost it, such as on a drained node
    PROGRAM = "program"  # the program itself failed


class Retries(Message):
    """Further attempts for every task while its run continues."""

    infrastructure: int = Field(
        default=2, ge=0, le=MOST_RETRIES, description="attempts after failures of the infrastructure, for each task"
    )
    program: int = Field(
        default=0, ge=0, le=MOST_RETRIES, description="attempts after failures of the program, for each task"
    )
    pause_seconds: int = Field(
        default=10,
        ge=0,
        le=600,
        description="pause before the first retry; each further pause is twice as long, at most 600",
    )

    def allowed_after(self, kind: FailureKind) -> int:
        """Return the number of retries after failures of the kind."""
        return self.infrastructure if kind is FailureKind.INFRASTRUCTURE else self.program


class _StrictRetries(Retries):
    model_config = Request.model_config


def _as_fields(value: object) -> object:
    return value.model_dump() if isinstance(value, Retries) else value


# retries in a request or a catalogue: an unknown field or a wrong type is an error
RequestedRetries = Annotated[_StrictRetries, BeforeValidator(_as_fields)]


class NextAttempt(Message):
    """The attempt after a failure."""

    kind: FailureKind
    deploy_after: datetime = Field(description="end of the pause; from this time on a dispatcher deploys the attempt")
