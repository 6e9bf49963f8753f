"""Log of a task, as a part or as a stream."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.domain.pacing import Backoff, log_pause
from crawler_lifecycle.errors import LifecycleError, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.services.api.desk import Desk
from crawler_lifecycle.services.api.events import BEATS, COMMENT, PAUSE, closing, event
from crawler_lifecycle.services.api.messages import LogPart
from crawler_lifecycle.services.api.runs import one_task
from crawler_lifecycle.services.problems import status_of

SHORTEST = PAUSE.total_seconds()
OUTAGE_PAUSES = Backoff(PAUSE, timedelta(seconds=5))
CATCHING_UP = 1 << 14  # characters; a longer piece was printed before the read

Read = tuple[LogPart, int]
Place = tuple[int | None, int]  # attempt (none: the last attempt) and byte in its log

logger = logging.getLogger(__name__)


def part(desk: Desk, run: int | str, task: int, attempt: int | None, offset: int) -> LogPart:
    """Return the log from this byte of the attempt; if another attempt began meanwhile, its log from the beginning."""
    return _read(desk, run, task, attempt, offset)[0]


def _read(desk: Desk, run: int | str, task: int, attempt: int | None, offset: int) -> Read:
    """Return a part with the number of fetched bytes."""
    row = one_task(desk, run, task)
    uid = desk.control.runs.overview(run).run.run_uid
    chunk = desk.control.runs.task_log(uid, row, offset if attempt in (None, row.attempt) else 0)
    return LogPart(attempt=row.attempt, text=chunk.text, offset=chunk.offset, ended=chunk.ended), chunk.read


async def begin(desk: Desk, run: str, task: int, place: Place) -> "Follower":
    """Return a follower after its first read, so that a missing log is an error instead of a stream.

    An outage is reported in the stream, which goes on afterwards.
    """
    follower = await desk.log_readers.run(_follower, desk, run, task, place)
    try:
        follower.read = await _unless_it_moves(desk, follower)
    except TemporaryError as error:
        logger.info("log of task %s of run %s: %s", task, run, error.message)
    return follower


async def _unless_it_moves(desk: Desk, follower: "Follower") -> Read:
    """Read, and after NotFound once more: a log moving out of the cluster is absent for a moment.

    A client never repeats a request for a missing log.
    """
    try:
        return await desk.log_readers.run(follower.next)
    except NotFound:
        await closing(desk)
        return await desk.log_readers.run(follower.next)


def _follower(desk: Desk, run: str, task: int, place: Place) -> "Follower":
    run_uid = desk.control.runs.overview(run).run.run_uid
    attempt, offset = place
    return Follower(desk, run_uid, task, one_task(desk, run, task).attempt if attempt is None else attempt, offset)


@dataclass
class Follower:
    """Place of a follower in a log, with the part read but not sent yet."""

    desk: Desk
    run_uid: str
    task: int
    attempt: int
    offset: int
    read: Read | None = None
    outages: int = 0  # failed reads since the last success
    missing: int = 0  # consecutive reads without a log

    def next(self) -> Read:
        return _read(self.desk, self.run_uid, self.task, self.attempt, self.offset)

    async def events(self) -> AsyncIterator[bytes]:
        silent = 0.0
        while True:
            events, pause = await self._news()
            for message in events:
                yield message
            silent = 0.0 if events else silent + (pause or 0.0)
            if silent >= BEATS * SHORTEST:
                silent = 0.0
                yield COMMENT
            if pause is None or (pause and await closing(self.desk, pause)):
                return

    async def _news(self) -> tuple[list[bytes], float | None]:
        """Return events and the pause before the next read. None: the log has ended."""
        try:
            part, fetched = await self.desk.log_readers.run(self.next) if self.read is None else self.read
        except LifecycleError as error:
            return self._missed(error)
        was_away, self.outages, self.missing, self.read = self.outages > 0, 0, 0, None
        self.attempt, self.offset = part.attempt, part.offset
        place, pause = f"{part.attempt}-{part.offset}", log_pause(fetched, SHORTEST)
        if part.text or (was_away and not part.ended):
            is_all = len(part.text) < CATCHING_UP and not part.ended
            # a read after every printed line would never pause
            return [event("log", part, place)], pause if is_all else 0.0
        return ([event("end", part, place)], None) if part.ended else ([], pause)

    def _missed(self, error: LifecycleError) -> tuple[list[bytes], float | None]:
        """Report a problem once. Accept a first NotFound: a log moving out of the cluster is absent for a moment."""
        problem = Problem(title=HTTPStatus(status_of(error)).phrase, status=status_of(error), detail=error.message)
        if not isinstance(error, PermanentError):
            self.outages, self.missing = self.outages + 1, 0
            return [event("problem", problem)] if self.outages == 1 else [], OUTAGE_PAUSES.seconds(self.outages)
        self.missing += 1
        if self.missing == 1:
            return [], SHORTEST
        over = LogPart(attempt=self.attempt, text="", offset=max(self.offset, 0), ended=True)
        return [event("problem", problem), event("end", over)], None
