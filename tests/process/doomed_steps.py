"""An author's module whose host kills itself at a chosen moment, once: the host imports the module first."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from crawler_lifecycle.assembly.store import SqlStepLedger
from crawler_lifecycle.flows import Context, Workflow
from crawler_lifecycle.flows.store.doors import SqlFlowDoors

FOLDER = Path(os.environ["DOOMED_FOLDER"])
MOMENT = os.environ.get("DOOMED_MOMENT", "")


def die_once(moment: str) -> None:
    if moment == MOMENT and not (FOLDER / "died").exists():
        (FOLDER / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def doomed(kind: type, name: str) -> None:
    """Let the host die before and after the method."""
    method = getattr(kind, name)

    def dies(*args: Any, **options: Any) -> Any:
        die_once(f"before {name}")
        answer = method(*args, **options)
        die_once(f"after {name}")
        return answer

    setattr(kind, name, dies)


if MOMENT:  # an isolated process has the same environment, but never writes
    for port, name in ((SqlStepLedger, "begin"), (SqlStepLedger, "end"), (SqlFlowDoors, "graft")):
        doomed(port, name)


def note(word: str) -> None:
    with (FOLDER / "calls").open("a") as file:
        file.write(f"{word}\n")


def item(number: int, context: Context) -> int:
    note(context.job.path)
    if number == 2:
        die_once("in the function")
    return number * 10


def total(context: Context) -> int:
    return sum(context["items"].values())


def graft(context: Context) -> Workflow:
    note(context.job.path)
    return Workflow().add("grafted", grafted)


def grafted(context: Context) -> str:
    note(context.job.path)
    return "grafted"


def process_and_wait(context: Context) -> int:
    note(str(os.getpid()))
    while not (FOLDER / "gate").exists():
        time.sleep(0.05)
    return os.getpid()


def hang(context: Context) -> None:
    note("hangs")
    while True:
        signal.pause()


async def hang_on_loop(context: Context) -> None:
    import asyncio

    note("hangs")
    await asyncio.sleep(600)
