"""What has a task printed, and what does it print now?"""

from collections.abc import AsyncIterator
from functools import partial

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.domain.pacing import log_pause
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.api.desk import Desk
from crawler_lifecycle.services.api.events import BEATS, COMMENT, PAUSE, closing, event
from crawler_lifecycle.services.api.messages import LogPart
from crawler_lifecycle.services.api.runs import one_task

SHORTEST = PAUSE.total_seconds()
CATCHING_UP = 1 << 14  # characters; what comes in such pieces was there before


def part(desk: Desk, run: int | str, task: int, attempt: int | None, offset: int) -> LogPart:
    """From this byte on of this attempt; from the beginning if there is another attempt by now."""
    return _read(desk, run, task, attempt, offset)[0]


def _read(desk: Desk, run: int | str, task: int, attempt: int | None, offset: int) -> tuple[LogPart, int]:
    """And how many bytes had to be fetched for it."""
    row = one_task(desk, run, task)
    uid = desk.control.overview(run).run.run_uid
    chunk = desk.control.task_log(uid, row, offset if attempt in (None, row.attempt) else 0)
    return LogPart(attempt=row.attempt, text=chunk.text, offset=chunk.offset, ended=chunk.ended), chunk.read


async def follow(desk: Desk, run_uid: str, task: int, attempt: int, offset: int) -> AsyncIterator[bytes]:
    silent = 0.0
    while True:
        try:
            read, fetched = await desk.read(partial(_read, desk, run_uid, task, attempt, offset))
        except LifecycleError as error:
            yield event("problem", Problem(title="Service Unavailable", status=503, detail=error.message))
            if await closing(desk):
                return
            continue
        attempt, offset = read.attempt, read.offset
        if read.text:
            silent = 0.0
            yield event("log", read, f"{attempt}-{offset}")
            is_all = len(read.text) < CATCHING_UP and not read.ended
            # a log that is asked for again after every line would be asked for all the time
            if is_all and await closing(desk, log_pause(fetched, SHORTEST)):
                return
            continue
        if read.ended:
            yield event("end", read, f"{attempt}-{offset}")
            return
        pause = log_pause(fetched, SHORTEST)
        silent += pause
        if silent >= BEATS * SHORTEST:
            silent = 0.0
            yield COMMENT
        if await closing(desk, pause):
            return
