"""Activity for steps: its host runs the functions in the author's modules."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.rules.messages import RunSteps, StepsEnded


class TryAgain(TemporaryError):
    """The host cannot run the steps now. Another try, on any host, may run them after the pause."""

    def __init__(self, message: str, pause: timedelta, *, cause: str) -> None:
        super().__init__(message, cause=cause)
        self.pause = pause


class Host(Protocol):
    """A host for steps."""

    async def run(self, step: RunSteps) -> StepsEnded:
        """Run the attempts, and return their ends. A cancelled call ends no function."""


@dataclass(frozen=True)
class StepActivities:
    host: Host

    @activity.defn
    async def run_steps(self, step: RunSteps) -> StepsEnded:
        """Run steps."""
        try:
            return await self.host.run(step)
        except TryAgain as error:
            # benign: the SDK would otherwise log a traceback with every try
            raise ApplicationError(
                error.message,
                type=error.cause,
                next_retry_delay=error.pause,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
