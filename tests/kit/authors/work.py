"""Functions and worker classes for the flows of these tests. They have to be at the top level of a module."""

import functools
from datetime import UTC, datetime
from typing import Any

from crawler_lifecycle.flows import Cancel, Context, Graft, RunningJob, Worker, Workflow, job, step, worker

LINES: list[str] = []  # what the functions print, in order
MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)


@worker()
class StepWorker:
    async def process(self, job: RunningJob) -> None:
        LINES.append(f"Executing: {job.meta['name']}")


@worker()
class SetupWorker(Worker):
    async def process(self, job: RunningJob) -> None:
        LINES.append(job.name)


@worker()
class ProcessWorker(Worker):
    async def process(self, job: RunningJob) -> None:
        LINES.append(job.name)


@worker()
class FinishWorker(Worker):
    async def process(self, job: RunningJob) -> None:
        LINES.append(job.name)


@worker(queue="slow", priority=3, max_attempts=2)
class SlowWorker(Worker):
    def process(self, job: RunningJob) -> dict[str, Any]:
        return {"args": dict(job.args)}


@job()
async def top() -> None:
    LINES.append("Top")


@job()
async def lefts() -> None:
    LINES.append("Left")


@job()
async def right() -> None:
    LINES.append("Right")


@job()
async def bottom() -> None:
    LINES.append("Bottom")


@job(queue="default")
def greet(name: str = "nobody") -> str:
    return f"hello {name}"


@step(max_attempts=3, timeout=60)
def marked(context: Context) -> str:
    return "marked"


def plain() -> str:
    return "plain"


def with_context(context: Context) -> list[str]:
    return sorted(context)


def by_name(plain: str, greeting: str) -> str:
    return f"{greeting} {plain}"


def item_and_context(item: Any, context: Context) -> dict[str, Any]:
    return {"item": item, "keys": sorted(context)}


async def extract(context: Context) -> dict[str, Any]:
    return {"records": [1, 2, 3], "source": context["source"], "extracted_at": MOMENT}


async def transform(context: Context) -> dict[str, Any]:
    assert context["extract"]["extracted_at"] == MOMENT
    return {"transformed": [record * 10 for record in context["extract"]["records"]]}


async def load(context: Context) -> dict[str, int]:
    return {"loaded": len(context["transform"]["transformed"])}


async def process_user(user_id: int, context: Context) -> dict[str, Any]:
    return {"user_id": user_id, "batch_id": context["batch_id"], "processed": True}


async def summarize(context: Context) -> int:
    return sum(1 for result in context["process"].values() if result["processed"])


def fetch_from_source(source: str, context: Context) -> str:
    return f"read {source}"


def merge_results(context: Context) -> list[str]:
    return [context["fetch"]["wiki"], context["fetch"]["docs"]]


def cancel_itself(context: Context) -> Cancel:
    return Cancel("nothing to do")


@worker()
class NotifyWorker(Worker):
    async def process(self, job: RunningJob) -> int:
        return int(job.args["user_id"])


@worker()
class UserNotifier(Worker):
    async def process(self, job: RunningJob) -> Graft:
        sub_workflow = Workflow()
        for user_id in range(int(job.args["account_id"])):
            sub_workflow.add(str(user_id), NotifyWorker.new({"user_id": user_id}))
        return Workflow.apply_graft(job, sub_workflow)


def graft_function(context: Context) -> Workflow:
    return Workflow().add_many("mails", [NotifyWorker.new({"user_id": user}) for user in (7, 8)])


class Holder:
    def method(self, context: Context) -> None:
        """Stand for a method, which no other process can find."""

    def job(self) -> None:
        """Have a name that marked functions use for their job."""


anonymous = lambda context: None  # noqa: E731
partial = functools.partial(plain)
