"""Jobs that listen to a stop, activities that wait for it, and what a stop puts on record."""

import asyncio
from collections.abc import Callable

from crawler_lifecycle.runs.model import MainJobStatus
from tests.kit.temporal.script import Script

WAITS = MainJobStatus(cause="unschedulable")

CLOSING = [
    "update_run_status",
    "signal_pusher_stopped",
    "remove_jobs",
    "initiate_export_signal",
    "export_supporting_files",
]


def until_asked(script: Script) -> Callable[[int], int]:
    """Jobs that end when they are asked to."""
    return lambda look: 0 if "k8_stop_task" in script.names else 1


def until_forced(script: Script) -> Callable[[int], int]:
    return lambda look: 0 if "k8_stop_pod" in script.names else 1


class Held:
    """Holds the script at an activity, so that a stop comes in the middle of it."""

    def __init__(self, script: Script, activity: str) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        script.before[activity] = self._hold

    async def _hold(self) -> None:
        self.reached.set()
        await self.go_on.wait()


def on_record(script: Script) -> list[str]:
    return [step.stop.actor for step in script.inputs("add_cancellation_log_to_db")]


def assert_in_order(names: list[str], expected: list[str]) -> None:
    left = iter(names)
    assert all(name in left for name in expected), f"{expected} are not in this order in {names}"
