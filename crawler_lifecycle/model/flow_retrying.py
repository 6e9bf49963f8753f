"""Retry policies as data: a flow member's number of attempts, the pauses between them, and rules for outcomes."""

from typing import Annotated

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import A_YEAR, MOST_ATTEMPTS, MOST_RULES
from crawler_lifecycle.base.names import Label
from crawler_lifecycle.model.requests import LARGEST_MEMORY_FACTOR

Attempts = Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)]
Pause = Annotated[float, Field(ge=0, le=A_YEAR, allow_inf_nan=False)]


class RetryRule(Message):
    """Exception from a policy for attempts with certain outcomes, such as `banned`.

    A completed run counts as a failure if a rule names its outcome, and is tried again.
    """

    outcomes: tuple[Label, ...] = Field(
        min_length=1, description="outcomes of attempts; the first rule with the outcome applies"
    )
    max_attempts: Attempts | None = Field(
        default=None, description="attempts with this rule's outcomes; default: the policy's number; 1: no retry"
    )
    pause_seconds: Pause | None = Field(default=None, description="constant pause; default: the policy's pauses")
    arguments: dict[str, JsonValue] = Field(
        default={}, description="arguments for the next attempt, in place of the previous ones"
    )
    memory_factor: float = Field(
        default=1.0,
        gt=0,
        le=LARGEST_MEMORY_FACTOR,
        description="memory of a crawl's next attempt, times its last memory; at most 16 times the memory in its entry",
    )


class RetryPolicy(Message):
    """Attempts for a member. The pause doubles after every failed attempt, up to the longest pause."""

    max_attempts: Attempts = 1
    pause_seconds: Pause = 10.0
    longest_pause_seconds: Pause = 600.0
    rules: tuple[RetryRule, ...] = Field(default=(), max_length=MOST_RULES)

    def rule_for(self, outcome: str | None) -> RetryRule | None:
        """Return the first rule that names the outcome."""
        return next((rule for rule in self.rules if outcome in rule.outcomes), None)
