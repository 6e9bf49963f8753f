"""An author's module for the soak and the outages: its functions write down their calls on another disk."""

import os
import time
from pathlib import Path
from typing import Any, TypeVar

from crawler_lifecycle.flows import Context, RetryPolicy, Workflow, crawl

TRUTH = "CHAOS_STEPS"  # variable with the folder for the functions' notes
AGAIN = RetryPolicy(max_attempts=2, pause_seconds=1)
ITEM_SECONDS = 1.0  # a function is under way for so long
T = TypeVar("T")


def begin(context: Context) -> int:
    return _called(context, 1)


def item(number: int, context: Context) -> int:
    result = _called(context, number * 10)
    time.sleep(ITEM_SECONDS)
    return result


def stumble(context: Context) -> str:
    """Fail in the first generation, so that people have a failure to retry."""
    _called(context, None)
    if context.job.generation == 1:
        raise RuntimeError("as the soak wants it")
    return "mended"


def merge(context: Context) -> int:
    return _called(context, int(sum(context["items"].values())))


def sprout(context: Context) -> Workflow:
    return _called(context, Workflow().add("leaf", leaf))


def leaf(context: Context) -> str:
    return _called(context, "leaf")


def a_flow(flow_id: str, items: int, crawler: str | None) -> Workflow:
    """A fan-out beside a crawl, a graft, a failure, and an approval before the sum. Without a crawler, no crawl."""
    flow = Workflow("chaos", id=flow_id).add("begin", begin)
    if crawler is not None:
        flow.add("shop", crawl(crawler), deps="begin", retry=AGAIN)
    return (
        flow.add_cascade("items", (range(1, items + 1), item), deps="begin")
        .add("stumble", stumble, deps="begin")
        .add_graft("sprout", sprout, deps="items")
        .add_approval("go", deps="shop" if crawler else "begin")
        .add("merge", merge, deps=["items", "go"])
    )


def calls_in(folder: Path, flow_uid: str) -> list[tuple[str, int]]:
    """Return path and attempt of each call that the functions wrote down."""
    path = folder / flow_uid
    lines = path.read_text().splitlines() if path.exists() else []
    return [(name, int(attempt)) for name, attempt in map(str.split, lines)]


def _called(context: Context, result: T) -> T:
    job: Any = context.job
    with (Path(os.environ[TRUTH]) / job.flow_uid).open("a") as notes:
        notes.write(f"{job.path} {job.attempt}\n")
    return result
