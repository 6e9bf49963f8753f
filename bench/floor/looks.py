"""Floor for a look without a difference: three no-op activities and a timer, repeated in bare workflows."""

from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from bench.floor.bare import Step
from bench.floor.rounds import floor

LOOK = (Step(1), Step(1), Step(1), Step(seconds=1.0))
MOST_LOOKS = 2000  # in all workflows
FEWEST_LOOKS, MOST_LOOKS_OF_ONE = 5, 20  # in a workflow: with several looks, start and end hardly count


@dataclass(frozen=True, slots=True)
class BareLooks:
    seconds: float  # for a look by every workflow
    cpu_ms: float  # worker and server, for a look


async def bare_looks(environment: Mapping[str, str], server: psutil.Process, workflows: int) -> BareLooks:
    """Measure bare looks by that many workflows at once, on the same server as the service with this environment."""
    looks = min(MOST_LOOKS_OF_ONE, max(FEWEST_LOOKS, MOST_LOOKS // workflows))
    async with floor(environment, server) as bare:
        measured = await bare.round(LOOK * looks, workflows)
    spent = measured.cpu["worker"] + measured.cpu["server"]
    return BareLooks(measured.seconds / looks, 1000 * spent / looks)
