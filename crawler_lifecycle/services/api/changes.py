"""Stream of changes for live views, without gaps, also after a break and from any process.

The database keeps the time of the last write to each run. A transaction begun earlier may become visible later, and
clocks of machines differ. So each pass looks further back than such a delay lasts, and sends only differences from the
state sent before. The id of an event is the time of the latest change sent. A write of a notice touches the row of the
run, so notices are found with the changed runs.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import Changed
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.api.desk import Desk
from crawler_lifecycle.services.api.events import BEATS, COMMENT, closing, event

LOOK_BACK = timedelta(minutes=2)
MOST = 10_000  # with more changes at once, a fresh view is cheaper
PAGE = 200
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
Sent = dict[int, datetime]


def id_of(moment: datetime) -> str:
    return str((moment - BEGINNING) // MICROSECOND)


def moment_of(given: str) -> datetime:
    """Return the time of an event id. ValueError or OverflowError: the text is no id."""
    if not given.isascii() or not given.isdecimal():
        raise ValueError(given)
    return BEGINNING + int(given) * MICROSECOND


async def follow(desk: Desk, last: datetime | None, run: int | None) -> AsyncIterator[bytes]:
    """Yield events after `last`, the time of the last received event. None: a new view, which reads the state."""
    view, silent = View(desk, last, run), 0
    while True:
        try:
            events = await desk.change_readers.run(view.news)
        except LifecycleError as error:  # the stream reports an outage and goes on afterwards
            problem = Problem(title="Service Unavailable", status=503, detail=error.message)
            events = [event("problem", problem)] if view.works else []
            view.works = False
        silent = 0 if events else silent + 1
        for message in events:
            yield message
        if silent >= BEATS:
            silent = 0
            yield COMMENT
        if await closing(desk):
            return


class View:
    """State and notices sent to one follower."""

    def __init__(self, desk: Desk, last: datetime | None, run: int | None) -> None:
        self.works = True
        self._desk = desk
        self._run = run
        self._high = None if last is None else _not_ahead(last)
        self._sent: Sent | None = None if last is None else {}
        self._sent_notices = dict[str, datetime]()  # times of notices by id
        self._greeted = False

    def news(self) -> list[bytes]:
        changes = self._read()
        fresh = [change for change in reversed(changes) if self._sent is not None and self._is_new(change)]
        wanted = [change for change in fresh if self._run in (None, change.run_id)]
        events = [self._event(changes)] if self._is_worth_telling(changes, fresh) else []
        if len(changes) <= MOST:
            self._pass_over(changes)
            events += self._states(wanted)
        self._sent = {change.run_id: change.changed_at for change in changes}
        high = self._later(changes[0].changed_at if changes else None)
        self._high = None if high is None else _not_ahead(high)
        since = self._since()
        self._sent_notices = {uid: at for uid, at in self._sent_notices.items() if at >= since}
        self._greeted = self.works = True
        return events

    def _read(self) -> Sequence[Changed]:
        if self._sent is None and (latest := self._desk.records.latest_change()) is not None:
            self._high = _not_ahead(latest)  # of all runs: a single followed run may be quiet for long
        return self._desk.records.changed_since(self._since(), MOST + 1, self._run)

    def _since(self) -> datetime:
        return self._high - LOOK_BACK if self._high is not None and self._high - BEGINNING > LOOK_BACK else BEGINNING

    def _pass_over(self, changes: Sequence[Changed]) -> None:
        """Mark old notices as sent: a new view reads notices of earlier changes itself."""
        if self._sent is None:
            known = [change.run_id for change in changes] if self._run is None else [self._run]
            for start in range(0, len(known), PAGE):
                numbers = known[start : start + PAGE]
                self._sent_notices |= {notice.notice_id: notice.at for notice in self._desk.records.notices_of(numbers)}

    def _is_new(self, change: Changed) -> bool:
        return self._sent is not None and self._sent.get(change.run_id) != change.changed_at

    def _is_worth_telling(self, changes: Sequence[Changed], fresh: Sequence[Changed]) -> bool:
        return not self._greeted or not self.works or (len(changes) > MOST and bool(fresh))

    def _event(self, changes: Sequence[Changed]) -> bytes:
        """Return `ready`, for a beginning and after an outage, or `reset`: the follower has to read the state anew."""
        new_view = self._sent is None or len(changes) > MOST
        high = self._later(changes[0].changed_at if changes else None) if new_view else self._high
        return event("reset" if len(changes) > MOST else "ready", place=id_of(high or BEGINNING))

    def _states(self, fresh: Sequence[Changed]) -> list[bytes]:
        """Return the states in the order of changes, so that a broken stream leaves no gap before its last event.

        Notices of a run come before its state: a client waiting for a start learns of the start before the end.
        """
        events, high, new_notices = [], self._high, dict[str, datetime]()
        for start in range(0, len(fresh), PAGE):
            page = fresh[start : start + PAGE]
            numbers = [change.run_id for change in page]
            states = {run.run_id: run for run in self._desk.records.summaries(numbers)}
            notices = self._untold(numbers)
            new_notices |= {notice.notice_id: notice.at for of_run in notices.values() for notice in of_run}
            for change in page:
                place = id_of(high or BEGINNING)  # the previous id, since the run of this event is not complete yet
                events += [event("notice", notice, place) for notice in notices[change.run_id]]
                high = max(change.changed_at, high or change.changed_at)
                if change.run_id in states:
                    events.append(event("run", states[change.run_id], id_of(high)))
        self._sent_notices |= new_notices  # last, since a failure above repeats the whole pass
        return events

    def _untold(self, run_ids: Sequence[int]) -> dict[int, list[Notice]]:
        """Return unsent notices by run. Older notices were sent when their run changed."""
        since, untold = self._since(), defaultdict[int, list[Notice]](list)
        for notice in self._desk.records.notices_of(run_ids):
            if notice.at >= since and notice.notice_id not in self._sent_notices:
                untold[notice.run_id].append(notice)
        return untold

    def _later(self, moment: datetime | None) -> datetime | None:
        return max((time for time in (self._high, moment) if time is not None), default=None)


def _not_ahead(moment: datetime) -> datetime:
    """Limit a time to the present: a machine whose clock is ahead must not hide later writes."""
    return min(moment, datetime.now(UTC))
