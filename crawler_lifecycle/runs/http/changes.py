"""Streams runs' changes to live views. No change is lost, also after a break or with another API process.

The database keeps every run's last write time. A transaction that began earlier may become visible later,
and machines' clocks differ. So every pass reads the last two minutes' changes again, and sends only changes that
the earlier passes did not send. An event's id is the latest sent change's time. A notice's write changes
its run's row too, so new notices are found with the changed runs.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.http.events import COMMENT, PAUSES_PER_COMMENT, event, wait_for_closing
from crawler_lifecycle.http.problems import problem_of
from crawler_lifecycle.model.notices import Notice
from crawler_lifecycle.model.records import Changed
from crawler_lifecycle.runs.http.runs import RunsApi
from crawler_lifecycle.runs.ports.records import Records

LOOK_BACK = timedelta(minutes=2)
MOST_CHANGES = 10_000  # with more changes in a pass, the follower reads the whole state anew
PAGE = 200  # runs in a query for states or notices
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
ChangeTimes = dict[int, datetime]  # by RunID, the time of the run's last change


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
