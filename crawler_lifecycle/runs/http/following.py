"""Reads a task's log: a single part, or a stream that follows the log to its end."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from crawler_lifecycle.base.pacing import Backoff, log_pause
from crawler_lifecycle.errors import LifecycleError, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.http.events import COMMENT, PAUSE, PAUSES_PER_COMMENT, event, wait_for_closing
from crawler_lifecycle.http.problems import problem_of
from crawler_lifecycle.model.records import LogPart
from crawler_lifecycle.runs.http.runs import RunsApi, find_task

SHORTEST_PAUSE = PAUSE.total_seconds()
OUTAGE_PAUSES = Backoff(PAUSE, timedelta(seconds=5))
LONG_PART = 1 << 14  # characters; the log has more already, so the next part is read without a pause

Read = tuple[LogPart, int]  # a log part, and the count of bytes fetched from the cluster or archive
Place = tuple[int | None, int]  # attempt (none: the last attempt) and byte in its log

logger = logging.getLogger(__name__)


def log_part(api: RunsApi, run: int | str, task: int, attempt: int | None, offset: int) -> LogPart:
    """Return the log of the attempt from the byte on. If a newer attempt began, return the newer log from its start."""
    return _read(api, run, task, attempt, offset)[0]


def _read(api: RunsApi, run: int | str, task: int, attempt: int | None, offset: int) -> Read:
    row = find_task(api, run, task)
    uid = api.control.runs.overview(run).run.run_uid
    is_same_attempt = attempt in (None, row.attempt)
    chunk = api.control.runs.task_log(uid, row, offset if is_same_attempt else 0)
    return LogPart(attempt=row.attempt, text=chunk.text, offset=chunk.offset, ended=chunk.ended), chunk.read


async def begin(api: RunsApi, run: str, task: int, place: Place) -> "Follower":
    """Return a follower after its first read, so that a missing log is an error instead of a stream.

    After an outage the follower has no first read: the stream reports the outage, and continues afterwards.
    """
    follower = await api.log_readers.run(_new_follower, api, run, task, place)
    try:
        follower.first_read = await _first_read(api, follower)
    except TemporaryError as error:
        logger.info("log of task %s of run %s: %s", task, run, error.message)
    return follower


def _new_follower(api: RunsApi, run: str, task: int, place: Place) -> "Follower":
    run_uid = api.control.runs.overview(run).run.run_uid
    attempt, offset = place
    if attempt is None:
        attempt = find_task(api, run, task).attempt
    return Follower(api, run_uid, task, attempt, offset)


async def _first_read(api: RunsApi, follower: "Follower") -> Read:
    """Read, and after NotFound once more: a log that moves out of the cluster is absent for a moment.

    Without the second try the answer would be 404, and a client does not repeat a request after 404.
    """
    try:
        return await api.log_readers.run(follower.read)
    except NotFound:
        await wait_for_closing(api)
        return await api.log_readers.run(follower.read)


@dataclass
class Follower:
    """A client that follows a log from its place: the attempt, and the byte of the next read."""

    api: RunsApi
    run_uid: str
    task: int
    attempt: int
    offset: int
    first_read: Read | None = None  # made by `begin`, until it is sent
    outages: int = 0  # failed reads since the last success
    permanent_failures: int = 0  # in a row, mostly NotFound

    def read(self) -> Read:
        return _read(self.api, self.run_uid, self.task, self.attempt, self.offset)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events until the log has ended or the process shuts down; yield a comment in a long silence."""
        silent_seconds = 0.0
        while True:
            events, pause = await self._next_events()
            for message in events:
                yield message
            silent_seconds = 0.0 if events else silent_seconds + (pause or 0.0)
            if silent_seconds >= PAUSES_PER_COMMENT * SHORTEST_PAUSE:
                silent_seconds = 0.0
                yield COMMENT
            if pause is None or (pause and await wait_for_closing(self.api, pause)):
                return

    async def _next_events(self) -> tuple[list[bytes], float | None]:
        """Read, and return the events and the pause before the next read; as pause, None ends the stream."""
        try:
            part, fetched = await self.api.log_readers.run(self.read) if self.first_read is None else self.first_read
        except LifecycleError as error:
            return self._after_failure(error)
        ends_outage = self.outages > 0
        self.outages, self.permanent_failures, self.first_read = 0, 0, None
        self.attempt, self.offset = part.attempt, part.offset
        event_id, pause = f"{part.attempt}-{part.offset}", log_pause(fetched, SHORTEST_PAUSE)
        if part.ended and not part.text:
            return [event("end", part, event_id)], None
        if part.text or ends_outage:  # an empty part shows the client the end of an outage
            # after a short part there is a pause: a program that prints all the time would be read all the time
            has_more = part.ended or len(part.text) >= LONG_PART  # after an ended part comes the event `end`
            return [event("log", part, event_id)], 0.0 if has_more else pause
        return [], pause

    def _after_failure(self, error: LifecycleError) -> tuple[list[bytes], float | None]:
        """Return the events and the pause after a failed read; as pause, None ends the stream.

        An outage is reported once, and the stream continues. A permanent failure is reported at its second time in a
        row and ends the stream: a log that moves out of the cluster is absent for a moment.
        """
        problem = problem_of(error)
        if not isinstance(error, PermanentError):
            self.outages, self.permanent_failures = self.outages + 1, 0
            events = [event("problem", problem)] if self.outages == 1 else []
            return events, OUTAGE_PAUSES.seconds(self.outages)
        self.permanent_failures += 1
        if self.permanent_failures == 1:
            return [], SHORTEST_PAUSE
        end = LogPart(attempt=self.attempt, text="", offset=max(self.offset, 0), ended=True)
        return [event("problem", problem), event("end", end)], None
