"""Bare workflow: no-op activities and timers, in the input's steps."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

TRY = timedelta(seconds=60)


@dataclass(frozen=True)
class Step:
    """A workflow task's commands: activities side by side, or a timer."""

    activities: int = 0
    seconds: float = 0.0  # until the timer fires, if there are no activities


@activity.defn
def no_op() -> None:
    """Do nothing."""


@workflow.defn
class BareWorkflow:
    @workflow.run
    async def run(self, steps: list[Step]) -> None:
        for step in steps:
            if step.activities:
                tries = (workflow.execute_activity(no_op, start_to_close_timeout=TRY) for _ in range(step.activities))
                await asyncio.gather(*tries)
            else:
                await workflow.sleep(step.seconds)
