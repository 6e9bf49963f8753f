"""Functions for the flows in the tests of the kit."""

import asyncio
import json
from pathlib import Path
from typing import Any

from crawler_lifecycle.flows import Cancel, Context, CrawlReceipt, RunningJob, TaskReceipt, Worker, Workflow, worker

CALLS: list[str] = []


def note(context: Context) -> str:
    CALLS.append(context.job.path)
    return context.job.name


async def note_later(context: Context) -> str:
    await asyncio.sleep(0)
    return note(context)


def count_items(shop: CrawlReceipt) -> float:
    return (shop.stats or {})["items"]


def parse(task: TaskReceipt, context: Context) -> int:
    assert task.files is not None
    lines = (Path(task.files) / f"items-{task.task}.jsonl").read_text().splitlines()
    return len([json.loads(line) for line in lines])


def total(parse: dict[str, int]) -> int:
    return sum(parse.values())


def broken(context: Context) -> None:
    raise ValueError("no such page")


def give_up(context: Context) -> None:
    raise Cancel("nothing to do")


def too_deep(context: Context) -> object:
    return object()


def details(context: Context) -> Workflow:
    return Workflow().add_cascade("pages", ([1, 2], page))


def page(number: int, context: Context) -> int:
    return number * 10


def is_released(release: dict[str, Any]) -> bool:
    return bool(release["approved"])


@worker()
class Fetch(Worker):
    async def process(self, job: RunningJob) -> Any:
        return job.args["page"]
