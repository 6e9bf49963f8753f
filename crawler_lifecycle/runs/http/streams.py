"""Endpoints for a task's log, as a single part or as a stream, and for the stream of all runs' changes.

The stream of changes loses no change, also after a break or with another API process. The database keeps every run's
last write time. A transaction that began earlier may become visible later, and machines' clocks differ. So every pass
reads the last two minutes' changes again, and sends only changes that the earlier passes did not send. An event's id is
the latest sent change's time. A notice's write changes its run's row too, so new notices are found with the changed
runs.
"""

import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from crawler_lifecycle.base.pacing import Backoff, log_pause
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.http.document import NO_TASK, stream_answer
from crawler_lifecycle.http.events import COMMENT, PAUSE, PAUSES_PER_COMMENT, event, stream, wait_for_closing
from crawler_lifecycle.http.problems import Responses, problem_of, problems
from crawler_lifecycle.http.state import READING, Caller, Run
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import Changed, LogPart
from crawler_lifecycle.runs.http.runs import CurrentApi, RunsApi, find_task
from crawler_lifecycle.runs.ports import Records

logger = logging.getLogger(__name__)
LOOK_BACK = timedelta(minutes=2)
MOST_CHANGES = 10_000  # with more changes in a pass, the follower reads the whole state anew
PAGE = 200  # runs in a query for states or notices
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
ChangeTimes = dict[int, datetime]  # by RunID, the time of the run's last change
SHORTEST_PAUSE = PAUSE.total_seconds()
OUTAGE_PAUSES = Backoff(PAUSE, timedelta(seconds=5))
LONG_PART = 1 << 14  # characters; the log has more already, so the next part is read without a pause
Read = tuple[LogPart, int]  # a log part, and the count of bytes fetched from the cluster or archive
Place = tuple[int | None, int]  # attempt (none: the last attempt) and byte in its log
LARGEST_OFFSET = 1 << 50  # bytes: longer than any log, and valid as an offset in a file
LOG: Responses = {
    200: {
        "description": "A part as JSON; with `Accept: text/plain`, the text from the offset to the present end.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
LOG_STREAM = stream_answer(
    'event: log\ndata: {"attempt":1,"text":"page 1 of 20\\n","offset":13,"ended":false}\nid: 1-13\n\n'
)
CHANGES = stream_answer(
    "event: ready\ndata: {}\nid: 1763629207250000\n\n"
    'event: notice\ndata: {"notice_id":"5d0b4a0e-6f55-5c4c-9d5e-0d2f1e3a7b11","kind":"started","run_id":42}\n'
    "id: 1763629207250000\n\n"
    'event: run\ndata: {"run_id":42,"status":"PROCESSING"}\nid: 1763629209000000\n\n'
)
router = APIRouter(prefix="/v1", tags=["following"], dependencies=READING)
TaskNumber = Annotated[int, Query(ge=0, le=10**9, description="number of the task")]
Offset = Annotated[
    int, Query(ge=-LARGEST_OFFSET, le=LARGEST_OFFSET, description="first byte to read; negative: counted from the end")
]
LastId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=64, description="id of the last received event")
]


def id_of(moment: datetime) -> str:
    """Return the event id for a time: the microseconds since 1970."""
    return str((moment - BEGINNING) // MICROSECOND)


def moment_of(event_id: str) -> datetime:
    """Return the time of an event id. ValueError or OverflowError: the text is no id."""
    if not event_id.isascii() or not event_id.isdecimal():
        raise ValueError(event_id)
    return BEGINNING + int(event_id) * MICROSECOND


async def follow(api: RunsApi, last: datetime | None, run: int | None, *, flows: bool = False) -> AsyncIterator[bytes]:
    """Yield all runs' events, or a single run's, until the process shuts down. `flows`: also runs of flows.

    `last` is the time in the follower's last event; later events follow. None: the
    follower has received no event, and reads the state after the opening event.
    """
    view, silent_passes = View(api, last, run, flows=flows), 0
    while True:
        try:
            events = await api.change_readers.run(view.next_events)
        except LifecycleError as error:  # the stream reports an outage once and continues afterwards
            events = [] if view.has_outage else [event("problem", problem_of(error))]
            view.has_outage = True
        silent_passes = 0 if events else silent_passes + 1
        for message in events:
            yield message
        if silent_passes >= PAUSES_PER_COMMENT:
            silent_passes = 0
            yield COMMENT
        if await wait_for_closing(api):
            return


class View:
    """A follower's view: the changes and the notices that the follower knows."""

    def __init__(self, api: RunsApi, last: datetime | None, run: int | None, *, flows: bool) -> None:
        self.has_outage = False  # the last pass failed
        self._api = api
        self._run = run
        self._flows = flows or run is not None  # a single run is followed wherever it belongs
        # latest change known to the follower: from an event, or from its own reading
        self._latest_known = None if last is None else _at_most_now(last)
        self._known_changes: ChangeTimes | None = None if last is None else {}  # None: a new view, before a first pass
        self._known_notices = dict[str, datetime]()  # times of notices by id
        self._has_opened = False  # the opening event was sent

    def next_events(self) -> list[bytes]:
        """Make a pass: read the changes, and return the events that bring the follower up to date."""
        changes = self._read_changes()  # the latest change first
        new_changes = [change for change in reversed(changes) if self._is_new(change)]
        has_too_many = len(changes) > MOST_CHANGES
        needs_opening_event = not self._has_opened or self.has_outage or (has_too_many and bool(new_changes))
        events = [self._opening_event(changes)] if needs_opening_event else []
        if not has_too_many:
            self._note_old_notices(changes)
            events += self._run_events([change for change in new_changes if self._run in (None, change.run_id)])
        self._note_changes(changes)
        self._has_opened, self.has_outage = True, False
        return events

    @property
    def _records(self) -> Records:
        return self._api.control.context.store.records

    def _read_changes(self) -> Sequence[Changed]:
        if self._known_changes is None and (latest := self._records.latest_change()) is not None:
            self._latest_known = _at_most_now(latest)  # of all runs: the followed run may be quiet for long
        start = self._start_of_pass()
        return self._records.changed_since(start, MOST_CHANGES + 1, self._run, flows=self._flows)

    def _start_of_pass(self) -> datetime:
        """Return the time from which a pass reads changes: `LOOK_BACK` before the latest known change."""
        if self._latest_known is None:
            return BEGINNING
        return max(BEGINNING, self._latest_known - LOOK_BACK)

    def _is_new(self, change: Changed) -> bool:
        """Return whether the follower does not know the change. For a new view no change is new: the follower reads
        the state after the opening event.
        """
        return self._known_changes is not None and self._known_changes.get(change.run_id) != change.changed_at

    def _opening_event(self, changes: Sequence[Changed]) -> bytes:
        """Return `ready`, at the beginning and after an outage, or `reset`, after which the follower reads the state
        anew.

        A follower that reads the state gets all changes with the state, so the event has the latest change's id.
        For another follower this pass's changes are still to come, and the event repeats the last id.
        """
        is_reset = len(changes) > MOST_CHANGES
        reads_state = is_reset or self._known_changes is None
        latest = self._latest_with(changes) if reads_state else self._latest_known
        return event("reset" if is_reset else "ready", event_id=id_of(latest or BEGINNING))

    def _note_old_notices(self, changes: Sequence[Changed]) -> None:
        """Note all notices as known if the view is new: the follower reads old notices with the state."""
        if self._known_changes is None:
            run_ids = [change.run_id for change in changes] if self._run is None else [self._run]
            for start in range(0, len(run_ids), PAGE):
                notices = self._records.notices_of(run_ids[start : start + PAGE])
                self._known_notices |= {notice.notice_id: notice.at for notice in notices}

    def _run_events(self, new_changes: Sequence[Changed]) -> list[bytes]:
        """Return the states in the order of changes, so that a broken stream leaves no gap before its last event.

        A run's notices come before its state: a client waiting for a start hears about the start before the end.
        """
        events, latest, new_notices = [], self._latest_known, dict[str, datetime]()
        for start in range(0, len(new_changes), PAGE):
            page = new_changes[start : start + PAGE]
            run_ids = [change.run_id for change in page]
            states = {run.run_id: run for run in self._records.summaries(run_ids)}
            notices = self._unknown_notices(run_ids)
            for change in page:
                # with the change's own id, a break between the notice and the state would lose the state
                previous_id = id_of(latest or BEGINNING)
                for notice in notices[change.run_id]:
                    new_notices[notice.notice_id] = notice.at
                    events.append(event("notice", notice, previous_id))
                latest = max(change.changed_at, latest or change.changed_at)
                if change.run_id in states:
                    events.append(event("run", states[change.run_id], id_of(latest)))
        self._known_notices |= new_notices  # last, since a failure above repeats the whole pass
        return events

    def _unknown_notices(self, run_ids: Sequence[int]) -> dict[int, list[Notice]]:
        """Return new notices by run. Notices older than `LOOK_BACK` were sent when their run changed."""
        start, unknown = self._start_of_pass(), defaultdict[int, list[Notice]](list)
        for notice in self._records.notices_of(run_ids):
            if notice.at >= start and notice.notice_id not in self._known_notices:
                unknown[notice.run_id].append(notice)
        return unknown

    def _note_changes(self, changes: Sequence[Changed]) -> None:
        """Note the changes as known, and forget notices that the next pass cannot read any more."""
        self._known_changes = {change.run_id: change.changed_at for change in changes}
        latest = self._latest_with(changes)
        self._latest_known = None if latest is None else _at_most_now(latest)
        start = self._start_of_pass()
        self._known_notices = {uid: at for uid, at in self._known_notices.items() if at >= start}

    def _latest_with(self, changes: Sequence[Changed]) -> datetime | None:
        """Return the latest change's time, known before or in `changes` (latest first)."""
        if not changes:
            return self._latest_known
        return max(changes[0].changed_at, self._latest_known or changes[0].changed_at)


def _at_most_now(moment: datetime) -> datetime:
    """Limit the time to the present: a write by a machine whose clock is ahead must not hide later writes."""
    return min(moment, datetime.now(UTC))


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


@router.get(
    "/runs/{run}/logs",
    response_model=LogPart,
    responses=LOG | problems(_404=NO_TASK),
)
async def get_log(
    api: CurrentApi, run: Run, request: Request, task: TaskNumber = 0, offset: Offset = 0
) -> LogPart | Response:
    """Return a part from the last attempt's log; with `Accept: text/plain`, return the text up to the present end."""
    part = await api.log_part_readers.run(log_part, api, run, task, None, offset)
    if not _wants_text(request.headers.get("accept", "")):
        return part
    headers = {"Cache-Control": "no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_text_after(api, run, task, part), media_type="text/plain", headers=headers)


def _wants_text(accept: str) -> bool:
    """Return whether the client names text/plain, and does not name JSON before."""
    types = [choice.partition(";")[0].strip().lower() for choice in accept.split(",")]
    return next((name == "text/plain" for name in types if name in ("text/plain", "application/json")), False)


async def _text_after(api: RunsApi, run: str, task: int, part: LogPart) -> AsyncIterator[str]:
    """Yield the text in the part and in the attempt's later parts, up to the present end."""
    attempt = part.attempt
    while part.text and part.attempt == attempt:
        yield part.text
        part = await api.log_part_readers.run(log_part, api, run, task, attempt, part.offset)


@router.get(
    "/runs/{run}/logs/stream",
    response_class=StreamingResponse,
    responses=LOG_STREAM | problems(_404=NO_TASK),
)
async def follow_log(
    api: CurrentApi, caller: Caller, run: Run, task: TaskNumber = 0, offset: Offset = 0, last_id: LastId = None
) -> StreamingResponse:
    """Stream the log of a task, attempt after attempt, until the task is over. Ids name the place to resume from."""
    api.streams.refuse_too_many(caller.name)  # before the log is read in vain
    follower = await begin(api, run, task, _read_log_id(last_id) if last_id else (None, offset))
    return stream(api, caller, follower.events())


@router.get(
    "/changes",
    response_class=StreamingResponse,
    responses=CHANGES
    | problems(
        _404="There is no such run.",
        _422="The Last-Event-ID is not an id of this stream, or a parameter is not acceptable.",
    ),
)
def follow_changes(
    api: CurrentApi,
    caller: Caller,
    run: Annotated[
        str | None, Query(max_length=64, description="only the run with this RunID (a number) or run_uid (a UUID)")
    ] = None,
    flows: Annotated[bool, Query(description="also runs of flows, which are left out as in lists of runs")] = False,
    last_id: LastId = None,
) -> StreamingResponse:
    """Stream every change of every run from now on, or from the event with the id on. An event carries the present
    state: several changes of a run may come as one event, and an unchanged state may come again; no change is left out.
    Notices (started, progress, stopped, finished) come before the state of their run. A repeated notice keeps its id.
    """
    last = _read_change_id(last_id)
    run_id = None if run is None else _known_run(api, run)
    return stream(api, caller, follow(api, last, run_id, flows=flows))


def _known_run(api: RunsApi, run: str) -> int:
    """Return the RunID. NotFound without such a run: its stream would stay silent forever."""
    run_id = api.control.runs.run_id(run)
    records = api.control.context.store.records
    if not records.summaries([run_id]):
        records.overview(run_id)  # raises NotFound, or Removed
    return run_id


def _read_change_id(last_id: str | None) -> datetime | None:
    """Return the time of the event with the id; None: the client has received no event."""
    if last_id is None:
        return None
    try:
        return moment_of(last_id)
    except (ValueError, OverflowError) as error:
        raise BadInput("Last-Event-ID", "expected the id of an event of this stream") from error


def _read_log_id(last_id: str) -> tuple[int, int]:
    """Return the attempt and the byte at which the client continues."""
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,15})", last_id)
    if not match:
        raise BadInput("Last-Event-ID", "expected the id of an event of this stream")
    return int(match[1]), int(match[2])
