"""Bare workflow: no-op activities and timers, in the input's steps."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

TRY = timedelta(seconds=60)


@dataclass(frozen=True)
class Step:
    """A workflow task's commands: activities and a timer, side by side."""

    activities: int = 0
    seconds: float = 0.0  # until the timer fires; 0: no timer


@activity.defn
def no_op() -> None:
    """Do nothing."""


@workflow.defn
class BareWorkflow:
    @workflow.run
    async def run(self, steps: list[Step]) -> None:
        for step in steps:
            tries = (workflow.execute_activity(no_op, start_to_close_timeout=TRY) for _ in range(step.activities))
            wait = [workflow.sleep(step.seconds)] if step.seconds else []
            await asyncio.gather(*tries, *wait)
