"""Functions of an author, for tests of the host. A test in the same process coordinates with them by the gates."""

import asyncio
import ctypes
import faulthandler
import math
import os
import signal
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_validator

from crawler_lifecycle.flows import Cancel, Context, Graft, Record, RunningJob, Snooze, Worker, Workflow, step, worker
from crawler_lifecycle.flows.model.records import CrawlReceipt, TaskReceipt

if "AUTHORS_END_THE_PROCESS" in os.environ:  # as a lack of memory during the import ends it
    os._exit(7)

calls: list[str] = []  # paths of the steps whose functions were called in this process
begun = threading.Event()
gate = threading.Event()
threads: set[int] = set()


def reset() -> None:
    calls.clear()
    begun.clear()
    gate.clear()
    threads.clear()


# forms


def extract(context: Context) -> dict[str, Any]:
    return {"records": [1, 2, 3], "at": datetime(2026, 1, 2, tzinfo=UTC), "by": context["operator"]}


async def transform(context: Context) -> list[int]:
    await asyncio.sleep(0)
    return [record * context["factor"] for record in context["extract"]["records"]]


def load(extract: dict[str, Any], transform: list[int]) -> str:
    return f"{extract['by']}: {sum(transform)}"


class Book(BaseModel):
    title: str
    year: int = 1900


@dataclass
class Shelf:
    number: int


def wrong_book() -> Book:
    return {"title": "Emma", "year": "long ago"}  # type: ignore[return-value]


async def wrong_shelf() -> Shelf | Cancel:
    return Shelf("three")  # type: ignore[arg-type]


async def right_shelf() -> Shelf | Cancel:
    return Shelf(3)


def cancelled_shelf() -> Shelf | Cancel:
    return Cancel("no shelf")


def number_of(shelf: Shelf) -> int:
    return shelf.number


@worker()
class Shelver(Worker):
    async def process(self, job: RunningJob) -> list[int]:
        return ["one"]  # type: ignore[list-item]


async def title(book: Book, context: Context) -> str:
    return f"{context.job.name}: {book.title} ({book.year})"


def shelve(shelf: Shelf, *, until: datetime) -> str:
    return f"shelf {shelf.number} until {until.year}"


def read_titles(context: Context) -> dict[str, Any]:
    return {"first": next(iter(context["titles"].values())), "number": len(context["titles"])}


@worker()
class Mailer(Worker):
    async def process(self, job: RunningJob) -> str:
        return f"mail to {job.args['name']}, attempt {job.attempt}"


@worker()
class Counter(Worker):
    def process(self, job: RunningJob) -> dict[str, Any]:
        return job.meta


def identity(context: Context) -> dict[str, Any]:
    return {"key": context.key, "attempt": context.attempt, "earlier": context.results("a/0")}


# crawls


def archive_of(shop: CrawlReceipt) -> str | None:
    return shop.archive


def run_of_task(item: TaskReceipt, context: Context) -> tuple[int, int]:
    return item.task, item.run_id


# ends


def nothing(context: Context) -> None:
    calls.append(context.job.path)


async def async_nothing(context: Context) -> None:
    calls.append(context.job.path)


def fail(context: Context) -> None:
    raise LookupError("no such shop")


async def async_fail(context: Context) -> None:
    raise LookupError("no such shop")


def leave(context: Context) -> None:
    raise SystemExit(3)


async def async_leave(context: Context) -> None:
    raise SystemExit(3)


async def interrupt(context: Context) -> None:
    raise KeyboardInterrupt


def cancel_by_return(context: Context) -> Cancel:
    return Cancel("nothing to do")


async def cancel_by_raise(context: Context) -> None:
    raise Cancel("nothing to do")


def snooze_once(context: Context) -> Snooze | Record:
    if context.attempt == 1:
        return Snooze(1)
    return Record({"errors": len(context.job.errors), "id": context.job.id == context.key})


def record_a_wrong_shelf() -> Shelf | Record:
    return Record("no shelf")


def unusable(context: Context) -> Any:
    return {"socket": threading.Lock()}


def too_large(context: Context) -> str:
    return "x" * 2000


class Terrible(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TerribleBook(BaseModel):
    title: str

    @field_validator("title")
    @classmethod
    def check(cls, title: str) -> str:
        raise Terrible


async def terrible_book() -> TerribleBook:
    return {"title": "Emma"}  # type: ignore[return-value]


def fail_terribly(context: Context) -> None:
    raise Terrible


# grafts


def graft(context: Context) -> Workflow:
    return Workflow().add_many("mails", [Mailer.new({"name": name}) for name in ("ann", "bob")])


def graft_by_call(context: Context) -> Graft:
    return Workflow.apply_graft(context.job, Workflow().add("one", nothing))


def graft_nothing(context: Context) -> None:
    calls.append(context.job.path)


def noted_word(context: Context) -> str:
    calls.append(context.job.path)
    return f"{context['word']} weather"


async def noted_first(context: Context) -> str:
    calls.append(context.job.path)
    await context.load("first")
    return str(context["first"])


def noted_graft(context: Context) -> Workflow:
    calls.append(context.job.path)
    return Workflow().add("inside", nothing)


def graft_badly(context: Context) -> Workflow:
    return Workflow(check_deps=False).add("one", nothing, deps="missing")


# time


def wait(context: Context) -> str:
    """Wait for the gate."""
    calls.append(context.job.path)
    threads.add(threading.get_ident())
    begun.set()
    assert gate.wait(60)
    return "through the gate"


def wait_item(item: int, context: Context) -> int:
    calls.append(context.job.path)
    assert gate.wait(60)
    return item


def wait_if(item: int, context: Context) -> int:
    if item:
        assert gate.wait(60)
    return item


def process(context: Context) -> int:
    return os.getpid()


def process_of_item(item: int, context: Context) -> int:
    return os.getpid()


def wait_for_cancel(context: Context) -> None:
    begun.set()
    while not context.cancelled:
        time.sleep(0.01)
    calls.append("cancelled")


async def async_wait(context: Context) -> None:
    calls.append(context.job.path)
    begun.set()
    try:
        await asyncio.sleep(60)
    finally:
        calls.append("finally")


async def ignore_cancel(context: Context) -> str:
    begun.set()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if gate.is_set():
                return "at last"


async def block(context: Context) -> str:
    """Block the event loop until the gate opens."""
    begun.set()
    assert gate.wait(60)
    return "through the gate"


def hang_alone(context: Context) -> None:
    Path(str(context["folder"]), "begun").write_text(str(os.getpid()))
    time.sleep(600)


def fork_and_hang(context: Context) -> None:
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    Path(str(context["folder"]), "begun").write_text(f"{os.getpid()} {child}")
    time.sleep(600)


def die(context: Context) -> None:
    with Path(str(context["folder"]), "deaths").open("a") as file:
        file.write("x")
    os._exit(7)


def number(item: int, context: Context) -> int:
    return item


def kill_itself(context: Context) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash(context: Context) -> None:
    faulthandler.disable()
    ctypes.string_at(0)


def deep(context: Context) -> Any:
    value: list[Any] = []
    for _ in range(1000):
        value = [value]
    return value


def strange(context: Context) -> dict[str, Any]:
    return {"nan": math.nan, "endless": -math.inf, "nul": "a\0b", "half": "\ud800", "bytes": b"\xff", "big": 10**30}


def alone(context: Context) -> dict[str, Any]:
    context.progress(1, 2)
    return {"pid": os.getpid(), "factor": context["factor"], "items": list(context["items"].values())}


@step(isolate=True)
async def async_alone(context: Context) -> int:
    await asyncio.sleep(0)
    return os.getpid()


not_a_function = 3
imported = Path
