"""Reads a task's log: a single part, or a stream that follows the log to its end."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.domain.pacing import Backoff, log_pause
from crawler_lifecycle.errors import LifecycleError, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.services.api.events import COMMENT, PAUSE, PAUSES_PER_COMMENT, closes_within, event
from crawler_lifecycle.services.api.messages import LogPart
from crawler_lifecycle.services.api.runs import one_task
from crawler_lifecycle.services.api.state import ApiState
from crawler_lifecycle.services.problems import status_of

SHORTEST_PAUSE = PAUSE.total_seconds()
OUTAGE_PAUSES = Backoff(PAUSE, timedelta(seconds=5))
CATCHING_UP = 1 << 14  # characters; after a longer part, the next part is read without a pause

Read = tuple[LogPart, int]  # the part, and the number of fetched bytes
Place = tuple[int | None, int]  # attempt (none: the last attempt) and byte in its log

logger = logging.getLogger(__name__)


def log_part(api: ApiState, run: int | str, task: int, attempt: int | None, offset: int) -> LogPart:
    """Return the log from this byte of the attempt; if another attempt began meanwhile, its log from the beginning."""
    return _read(api, run, task, attempt, offset)[0]


def _read(api: ApiState, run: int | str, task: int, attempt: int | None, offset: int) -> Read:
    row = one_task(api, run, task)
    uid = api.control.runs.overview(run).run.run_uid
    chunk = api.control.runs.task_log(uid, row, offset if attempt in (None, row.attempt) else 0)
    return LogPart(attempt=row.attempt, text=chunk.text, offset=chunk.offset, ended=chunk.ended), chunk.read


async def begin(api: ApiState, run: str, task: int, place: Place) -> "Follower":
    """Return a follower after its first read, so that a missing log is an error instead of a stream.

    An outage is reported in the stream, which goes on afterwards.
    """
    follower = await api.log_readers.run(_new_follower, api, run, task, place)
    try:
        follower.read = await _first_read(api, follower)
    except TemporaryError as error:
        logger.info("log of task %s of run %s: %s", task, run, error.message)
    return follower


async def _first_read(api: ApiState, follower: "Follower") -> Read:
    """Read, and after NotFound once more: a log moving out of the cluster is absent for a moment.

    Without the second try the answer would be 404, and a client does not repeat a request after 404.
    """
    try:
        return await api.log_readers.run(follower.next)
    except NotFound:
        await closes_within(api)
        return await api.log_readers.run(follower.next)


def _new_follower(api: ApiState, run: str, task: int, place: Place) -> "Follower":
    run_uid = api.control.runs.overview(run).run.run_uid
    attempt, offset = place
    return Follower(api, run_uid, task, one_task(api, run, task).attempt if attempt is None else attempt, offset)


@dataclass
class Follower:
    """A client that follows a log: its place in the log, and the part read but not sent yet."""

    api: ApiState
    run_uid: str
    task: int
    attempt: int
    offset: int
    read: Read | None = None
    outages: int = 0  # failed reads since the last success
    missing: int = 0  # permanent failures in a row, mostly NotFound

    def next(self) -> Read:
        return _read(self.api, self.run_uid, self.task, self.attempt, self.offset)

    async def events(self) -> AsyncIterator[bytes]:
        silent = 0.0
        while True:
            events, pause = await self._next_events()
            for message in events:
                yield message
            silent = 0.0 if events else silent + (pause or 0.0)
            if silent >= PAUSES_PER_COMMENT * SHORTEST_PAUSE:
                silent = 0.0
                yield COMMENT
            if pause is None or (pause and await closes_within(self.api, pause)):
                return

    async def _next_events(self) -> tuple[list[bytes], float | None]:
        """Read, and return the events and the pause before the next read. None: the log has ended."""
        try:
            part, fetched = await self.api.log_readers.run(self.next) if self.read is None else self.read
        except LifecycleError as error:
            return self._after_failure(error)
        was_away, self.outages, self.missing, self.read = self.outages > 0, 0, 0, None
        self.attempt, self.offset = part.attempt, part.offset
        event_id, pause = f"{part.attempt}-{part.offset}", log_pause(fetched, SHORTEST_PAUSE)
        if part.text or (was_away and not part.ended):  # an empty part tells the client the end of an outage
            # after a short part there is a pause: a program that prints all the time would be read all the time
            is_up_to_date = len(part.text) < CATCHING_UP and not part.ended
            return [event("log", part, event_id)], pause if is_up_to_date else 0.0
        return ([event("end", part, event_id)], None) if part.ended else ([], pause)

    def _after_failure(self, error: LifecycleError) -> tuple[list[bytes], float | None]:
        """Report an outage once, and go on. Report a permanent failure at its second time in a row, and end the stream:
        a log moving out of the cluster is absent for a moment.
        """
        problem = Problem(title=HTTPStatus(status_of(error)).phrase, status=status_of(error), detail=error.message)
        if not isinstance(error, PermanentError):
            self.outages, self.missing = self.outages + 1, 0
            return [event("problem", problem)] if self.outages == 1 else [], OUTAGE_PAUSES.seconds(self.outages)
        self.missing += 1
        if self.missing == 1:
            return [], SHORTEST_PAUSE
        over = LogPart(attempt=self.attempt, text="", offset=max(self.offset, 0), ended=True)
        return [event("problem", problem), event("end", over)], None
