"""Streams runs' changes to live views. No change is lost, also after a break or with another API process.

The database keeps the last write's time for every run. A transaction begun earlier may become visible later, and
machines' clocks differ. So every pass reads the changes of the last two minutes again, and sends only differences
from the state sent before. The id of an event is the time of the latest change sent. A notice's write touches the
run's row, so new notices are found with the changed runs.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.contract.deployment import Problem
from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.contract.records import Changed
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.api.events import COMMENT, PAUSES_PER_COMMENT, closes_within, event
from crawler_lifecycle.services.api.state import ApiState

LOOK_BACK = timedelta(minutes=2)
MOST_CHANGES = 10_000  # with more changes at once, the follower reads the whole state anew
PAGE = 200
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
Sent = dict[int, datetime]  # by RunID, the time of the run's last change at the previous pass


def id_of(moment: datetime) -> str:
    return str((moment - BEGINNING) // MICROSECOND)


def moment_of(given: str) -> datetime:
    """Return the time of an event id. ValueError or OverflowError: the text is no id."""
    if not given.isascii() or not given.isdecimal():
        raise ValueError(given)
    return BEGINNING + int(given) * MICROSECOND


async def follow(api: ApiState, last: datetime | None, run: int | None) -> AsyncIterator[bytes]:
    """Yield events after `last`, the time of the last event received. None: a new view, which reads the state."""
    view, silent_passes = View(api, last, run), 0
    while True:
        try:
            events = await api.change_readers.run(view.next_events)
        except LifecycleError as error:  # the stream reports an outage and goes on afterwards
            problem = Problem(title="Service Unavailable", status=503, detail=error.message)
            events = [event("problem", problem)] if view.works else []
            view.works = False
        silent_passes = 0 if events else silent_passes + 1
        for message in events:
            yield message
        if silent_passes >= PAUSES_PER_COMMENT:
            silent_passes = 0
            yield COMMENT
        if await closes_within(api):
            return


class View:
    """A follower's view: the state and the notices that the follower has received."""

    def __init__(self, api: ApiState, last: datetime | None, run: int | None) -> None:
        self.works = True  # the last pass succeeded
        self._api = api
        self._run = run
        # time of the latest change known to the follower: from an event, or from its own reading of the state
        self._latest_sent = None if last is None else _not_ahead(last)
        self._sent: Sent | None = None if last is None else {}  # None: a new view before its first pass
        self._sent_notices = dict[str, datetime]()  # times of notices by id
        self._is_open = False  # the opening event was sent

    def next_events(self) -> list[bytes]:
        """Read the changes, and return the events that bring the follower up to date."""
        changes = self._read_changes()
        new_changes = [change for change in reversed(changes) if self._is_new(change)]
        has_opening_event = self._needs_opening_event(changes, new_changes)
        events = [self._opening_event(changes)] if has_opening_event else []
        if len(changes) <= MOST_CHANGES:
            self._mark_old_notices(changes)
            events += self._run_events([change for change in new_changes if self._run in (None, change.run_id)])
        self._note_as_sent(changes)
        self._is_open = self.works = True
        return events

    def _note_as_sent(self, changes: Sequence[Changed]) -> None:
        """Note the changes for the next pass, and forget notices that the next pass cannot read any more."""
        self._sent = {change.run_id: change.changed_at for change in changes}
        latest = self._latest_with(changes)
        self._latest_sent = None if latest is None else _not_ahead(latest)
        since = self._since()
        self._sent_notices = {uid: at for uid, at in self._sent_notices.items() if at >= since}

    def _read_changes(self) -> Sequence[Changed]:
        if self._sent is None and (latest := self._api.records.latest_change()) is not None:
            self._latest_sent = _not_ahead(latest)  # the latest of all runs: the followed run may be quiet for long
        return self._api.records.changed_since(self._since(), MOST_CHANGES + 1, self._run)

    def _since(self) -> datetime:
        """Return the start of a pass's reading: the changes since then were mostly read before."""
        if self._latest_sent is None:
            return BEGINNING
        return max(BEGINNING, self._latest_sent - LOOK_BACK)

    def _mark_old_notices(self, changes: Sequence[Changed]) -> None:
        """Mark the old notices as sent, if the view is new: the follower reads them with the state."""
        if self._sent is None:
            run_ids = [change.run_id for change in changes] if self._run is None else [self._run]
            for start in range(0, len(run_ids), PAGE):
                notices = self._api.records.notices_of(run_ids[start : start + PAGE])
                self._sent_notices |= {notice.notice_id: notice.at for notice in notices}

    def _is_new(self, change: Changed) -> bool:
        """Return whether the change was not sent yet. For a new view no change is new: its follower reads the state."""
        return self._sent is not None and self._sent.get(change.run_id) != change.changed_at

    def _needs_opening_event(self, changes: Sequence[Changed], new_changes: Sequence[Changed]) -> bool:
        return not self._is_open or not self.works or (len(changes) > MOST_CHANGES and bool(new_changes))

    def _opening_event(self, changes: Sequence[Changed]) -> bytes:
        """Return `ready`, at the beginning and after an outage, or `reset`: the follower has to read the state anew.

        With the state the follower has all changes. Without, the changes of this pass are still to come, and the event
        repeats the last id.
        """
        is_reset = len(changes) > MOST_CHANGES
        reads_state = is_reset or self._sent is None
        latest = self._latest_with(changes) if reads_state else self._latest_sent
        return event("reset" if is_reset else "ready", event_id=id_of(latest or BEGINNING))

    def _run_events(self, new_changes: Sequence[Changed]) -> list[bytes]:
        """Return the states in the order of changes, so that a broken stream leaves no gap before its last event.

        Notices of a run come before its state: a client waiting for a start learns of the start before the end.
        """
        events, latest, new_notices = [], self._latest_sent, dict[str, datetime]()
        for start in range(0, len(new_changes), PAGE):
            page = new_changes[start : start + PAGE]
            run_ids = [change.run_id for change in page]
            states = {run.run_id: run for run in self._api.records.summaries(run_ids)}
            notices = self._unsent_notices(run_ids)
            new_notices |= {notice.notice_id: notice.at for of_run in notices.values() for notice in of_run}
            for change in page:
                # with the change's own id, a break between the notice and the state would lose the state
                previous_id = id_of(latest or BEGINNING)
                events += [event("notice", notice, previous_id) for notice in notices[change.run_id]]
                latest = max(change.changed_at, latest or change.changed_at)
                if change.run_id in states:
                    events.append(event("run", states[change.run_id], id_of(latest)))
        self._sent_notices |= new_notices  # last, since a failure above repeats the whole pass
        return events

    def _unsent_notices(self, run_ids: Sequence[int]) -> dict[int, list[Notice]]:
        """Return unsent notices by run. Notices older than `LOOK_BACK` were sent when their run changed."""
        since, unsent = self._since(), defaultdict[int, list[Notice]](list)
        for notice in self._api.records.notices_of(run_ids):
            if notice.at >= since and notice.notice_id not in self._sent_notices:
                unsent[notice.run_id].append(notice)
        return unsent

    def _latest_with(self, changes: Sequence[Changed]) -> datetime | None:
        """Return the time of the latest change, sent before or now. `changes` begin with the latest change."""
        times = [self._latest_sent, changes[0].changed_at if changes else None]
        return max((time for time in times if time is not None), default=None)


def _not_ahead(moment: datetime) -> datetime:
    """Limit the time to the present: a write by a machine whose clock is ahead must not hide later writes."""
    return min(moment, datetime.now(UTC))
