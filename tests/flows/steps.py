"""Functions and worker classes for the tests on a real server."""

import asyncio
import threading
from collections import defaultdict
from typing import Any

from crawler_lifecycle.flows import Context, RunningJob, Worker, job, worker

FAILING: set[str] = set()  # names of jobs that fail
CALLS: list[str] = []
RELEASE = threading.Event()
HELD: defaultdict[str, threading.Event] = defaultdict(threading.Event)  # set: the name is released


@worker()
class May(Worker):
    """A job that fails as long as its name is in `FAILING`."""

    async def process(self, job: RunningJob) -> dict[str, Any]:
        CALLS.append(job.name)
        if job.name in FAILING:
            raise ValueError(f"{job.name} fails")
        return {"name": job.name}


@job()
async def slow() -> None:
    """Take longer than any wait in the tests, unless the test releases the job."""
    await asyncio.to_thread(RELEASE.wait, 30)


def held(context: Context) -> list[str]:
    """Take as long as the test holds the job, and return the names of the job and of jobs before, by their results."""
    name = context.job.name
    CALLS.append(name)
    HELD[name].wait(30)
    return [name, *(result[0] for result in context.values() if isinstance(result, list))]


@job()
def fails() -> None:
    raise ValueError("step2 fails")


@job()
def note(name: str) -> str:
    CALLS.append(name)
    return name


def with_context(context: Context) -> list[str]:
    return sorted(context)
