"""An author's module for the crash matrix: its functions write down their calls, and a call may kill its host."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, TypeVar

from crawler_lifecycle.flows import Context, RetryPolicy, Workflow, crawl, each_task
from tests.crash.deaths import Deaths

NOTES, DEATHS = "CASE_NOTES", "CASE_DEATHS"  # variables of a host
IN_THE_FUNCTION, AFTER_THE_FUNCTION = "function.in", "function.after"
ITEMS = (1, 2, 3)
DEADLY = 2  # an item in the middle of its slice
AGAIN = RetryPolicy(max_attempts=2, pause_seconds=0.5)
T = TypeVar("T")


def calls_of(notes: str) -> Path:
    """Return the file with the calls of a case: a line with path and attempt for each call."""
    return Path(f"{notes}.calls")


def begin(context: Context) -> int:
    return _called(context, 1)


def item(number: int, context: Context) -> int:
    result = _called(context, number * 10)
    if number == DEADLY:
        deaths = Deaths(Path(os.environ[NOTES]), json.loads(os.environ[DEATHS]))
        deaths.pass_by(IN_THE_FUNCTION)
        deaths.pass_by(AFTER_THE_FUNCTION)  # the next call comes as far as here
    return result


def merge(context: Context) -> int:
    return _called(context, int(sum(context["items"].values()) + context["begin"]))


def of_task(task: dict[str, Any], context: Context) -> int:
    return _called(context, int(task["task"]))


def sprout(context: Context) -> Workflow:
    return _called(context, Workflow().add("left", leaf).add("right", leaf))


def leaf(context: Context) -> str:
    return _called(context, context.job.name)


def flaky(context: Context) -> str:
    return _called(context, _unless(context.attempt == 1))


def broken(context: Context) -> str:
    return _called(context, _unless(context.job.generation == 1))


async def hang(context: Context) -> None:
    _called(context, None)
    await asyncio.sleep(3600)


def whole(flow_id: str) -> Workflow:
    """A diamond of a crawl and a fan-out, a graft, steps for a crawl's tasks, failures, and a crawl to cancel."""
    return (
        Workflow("whole", id=flow_id)
        .add("begin", begin)
        .add("shop", crawl("gated", arguments={"lang": "de"}, tasks=2), deps="begin", retry=AGAIN)
        .add_cascade("items", (ITEMS, item), deps="begin")
        .add("merge", merge, deps=["shop", "items", "begin"])
        .add_cascade("each", each_task("shop", of_task))
        .add_graft("sprout", sprout, deps="merge")
        .add("flaky", flaky, deps="begin", retry=AGAIN)
        .add("broken", broken, deps="begin")
        .add("late", crawl("polite", arguments={"page": "last"}), deps="begin")
        .add("unlisted", crawl("unlisted"), deps="begin")
    )


def addition() -> Workflow:
    """A job that joins the flow later."""
    return Workflow().add("joined", leaf)


def hanging(flow_id: str) -> Workflow:
    """A step and a crawl that end only by a cancel."""
    return (
        Workflow("hanging", id=flow_id)
        .add("hang", hang)
        .add("late", crawl("polite"))
        .add("never", leaf, deps=["hang", "late"])
    )


def leaving(flow_id: str) -> Workflow:
    """A crawl that ends only by a cancel, in a flow without a host."""
    return Workflow("leaving", id=flow_id).add("late", crawl("polite"))


def deciding(flow_id: str) -> Workflow:
    """A flow without a host and without runs."""
    return Workflow("deciding", id=flow_id).add_approval("go").add_approval("wait")


def _unless(is_too_early: bool) -> str:
    return "too early" if is_too_early else "mended"


def _called(context: Context, result: T) -> T:
    with calls_of(os.environ[NOTES]).open("a") as calls:
        calls.write(f"{context.job.path} {context.attempt}\n")
    if result == "too early":
        raise RuntimeError("as the test wants it")
    return result
