"""What has a task printed, and what does it print now?"""

from collections.abc import AsyncIterator
from functools import partial

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.api.desk import Desk
from crawler_lifecycle.services.api.events import BEATS, COMMENT, closing, event
from crawler_lifecycle.services.api.messages import LogPart
from crawler_lifecycle.services.api.runs import one_task


def part(desk: Desk, run: int | str, task: int, attempt: int | None, offset: int) -> LogPart:
    """From this byte on of this attempt; from the beginning if there is another attempt by now."""
    row = one_task(desk, run, task)
    uid = desk.control.overview(run).run.run_uid
    chunk = desk.control.task_log(uid, row, offset if attempt in (None, row.attempt) else 0)
    return LogPart(attempt=row.attempt, text=chunk.text, offset=chunk.offset, ended=chunk.ended)


async def follow(desk: Desk, run_uid: str, task: int, attempt: int, offset: int) -> AsyncIterator[bytes]:
    silent = 0
    while True:
        try:
            read = await desk.read(partial(part, desk, run_uid, task, attempt, offset))
        except LifecycleError as error:
            yield event("problem", Problem(title="Service Unavailable", status=503, detail=error.message))
            if await closing(desk):
                return
            continue
        attempt, offset = read.attempt, read.offset
        if read.text:
            silent = 0
            yield event("log", read, f"{attempt}-{offset}")
            continue  # there may be more at once
        if read.ended:
            yield event("end", read, f"{attempt}-{offset}")
            return
        silent += 1
        if silent % BEATS == 0:
            yield COMMENT
        if await closing(desk):
            return
