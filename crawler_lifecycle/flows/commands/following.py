"""Follows a flow: its present state whenever the flow has changed. The module needs the database alone.

Members have the time of their last change, which a transaction sets before its commit, and machines' clocks differ. So
every pass asks for the last two minutes' changes, and reads only the members whose change the view does not know.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.flows.commands.members import MANAGER, group_records, member_records
from crawler_lifecycle.flows.commands.reading import FlowReader
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import FlowChange, FlowStatus, GroupRecord, MemberRecord
from crawler_lifecycle.flows.ports.ledger import FlowStore
from crawler_lifecycle.flows.ports.records import FlowNews, Part
from crawler_lifecycle.model.flow_states import MemberKind

LOOK_BACK = timedelta(minutes=2)
SHORTEST_PAUSE = 0.3  # seconds between two reads
LARGEST_SHARE = 5.0  # longest pause, in durations of the previous read: large flows are read less often


class FollowedFlow:
    """A follower's view of a flow."""

    def __init__(self, reader: FlowReader, flow: str) -> None:
        self.pause = SHORTEST_PAUSE  # seconds until the next read
        self._reader = reader
        self._flow = flow
        self._news: FlowNews | None = None  # the last pass's news: the view knows these changes
        self._since: datetime | None = None
        self._jobs: dict[str, MemberRecord] = {}
        self._groups: tuple[GroupRecord, ...] = ()
        self._awaits_run: set[int] = set()  # members whose attempt has no run yet
        self._status: FlowStatus | None = None
        self._has_managers = False
        self._managers: tuple[ManagerStatus, ...] = ()

    def next_change(self) -> FlowChange | None:
        """Read the changes. Return the flow's state with the changed members; None if nothing has changed."""
        began = time.monotonic()
        try:
            return self._next_change()
        finally:
            self.pause = max(SHORTEST_PAUSE, LARGEST_SHARE * (time.monotonic() - began))

    def _next_change(self) -> FlowChange | None:
        before, news = self._news, self._reader.news(self._flow, self._since)
        is_new = before is None or (before.uid, before.removal) != (news.uid, news.removal)
        if is_new and self._since is not None:
            news = self._reader.news(self._flow, None)
        jobs, groups = self._read(None if is_new else self._numbers(news))
        changed = tuple(job for path, job in jobs.items() if self._jobs.get(path) != job)
        removed = tuple(path for path in self._jobs if path not in jobs) if is_new else ()
        managers = self._read_managers(jobs)
        has_groups = groups != self._groups
        has_jobs = bool(changed or removed or has_groups) or managers != self._managers
        head = (news.uid, news.row, news.door)
        if before is not None and not has_jobs and (before.uid, before.row, before.door) == head:
            self._note(news, changed, removed, self._status)
            return None
        present = self._reader.status(self._flow)
        is_known = self._status is not None and _timeless(self._status) == _timeless(present)
        is_known = is_known and before is not None and before.row.state is news.row.state and not has_jobs
        self._note(news, changed, removed, present)
        self._managers, self._groups = managers, groups
        if is_known:
            return None
        return FlowChange(
            status=present,
            is_over=news.row.state.is_final,
            jobs=changed,
            removed=removed,
            groups=groups if has_groups or is_new else None,
            managers=managers,
        )

    def _numbers(self, news: FlowNews) -> set[int]:
        """Return the members to read: an earlier end of a run may have been taken back by a reopening.

        A door may change the dependencies of a group and no member. Then a member is read, and all groups with it.
        """
        known, lagging = ({}, ()) if self._news is None else (self._news.changed, self._news.lagging)
        changed = {number for number, at in news.changed.items() if known.get(number) != at}
        changed |= {*news.lagging, *lagging, *self._awaits_run}
        has_door = self._news is not None and self._news.door != news.door
        return changed or ({job.number for job in islice(self._jobs.values(), 1)} if has_door else set())

    def _read(self, numbers: set[int] | None) -> tuple[dict[str, MemberRecord], tuple[GroupRecord, ...]]:
        """Return the members with the numbers by path, all members without numbers; and the groups."""
        if numbers is not None and not numbers:
            return {}, self._groups
        kept = self._reader.kept(self._flow, None if numbers is None else Part(numbers=numbers))
        return {job.path: job for job in member_records(kept)}, group_records(kept)

    def _read_managers(self, jobs: Mapping[str, MemberRecord]) -> tuple[ManagerStatus, ...]:
        """Return the flow's crawl managers. Their numbers change without a change of a member."""
        self._has_managers = self._has_managers or any(job.kind == MANAGER for job in jobs.values())
        return tuple(self._reader.managers(self._flow)) if self._has_managers else ()

    def _note(
        self,
        news: FlowNews,
        changed: Iterable[MemberRecord],
        removed: Iterable[str],
        present: FlowStatus | None,
    ) -> None:
        """Note the pass after its last read: a failed pass leaves the view as the follower knows the flow."""
        self._news, self._status = news, present
        latest = max(news.changed.values(), default=None)
        if latest is not None:  # a clock that is ahead must not hide later changes
            self._since = min(latest, datetime.now(UTC)) - LOOK_BACK
        for path in removed:
            self._awaits_run.discard(self._jobs.pop(path).number)
        for job in changed:
            self._jobs[job.path] = job
            awaits_run = job.kind == MemberKind.CRAWL and not job.state.is_final and job.attempt and job.run_id is None
            (self._awaits_run.add if awaits_run else self._awaits_run.discard)(job.number)


async def follow(context: ControlContext[FlowStore], flow: str) -> AsyncIterator[FlowChange]:
    """Yield the flow's state at every change, until the flow has ended. NotFound without such a flow."""
    view = FollowedFlow(FlowReader(context), flow)
    while True:
        change = await context.database(lambda _: view.next_change())
        if change is not None:
            yield change
            if change.is_over:
                return
        await asyncio.sleep(view.pause)


def _timeless(present: FlowStatus) -> FlowStatus:
    """Return the status without the elapsed time, which changes all the time."""
    subs = {name: _timeless(sub) for name, sub in present.subs.items()}
    return present.model_copy(update={"elapsed": None, "subs": subs})
