"""The link from a manager's object to its ledger. The manager's host, and the test kit, implement the link.

Every call is one transaction, which is refused if another process has taken the manager over: then the object's
process ends. The effect of a call that returned is stored. A call that did not return may have been stored, and is safe
to repeat.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from crawler_lifecycle.flows.model.turns import Begun, Counts, Effects, Intent, Offered, Page, Reaction, Start, Wake
from crawler_lifecycle.model.manager_items import Job, JobFilter, JobState, Waiting


class JobReadings(Protocol):
    """The readings by key."""

    def find(self, keys: list[str]) -> Sequence[Job]: ...

    def runs(self, chosen: JobFilter) -> Sequence[Job]: ...


def running_of(link: JobReadings, keys: Collection[str]) -> list[str]:
    """Return the keys of jobs under way, among the manager's jobs and the installation's further runs."""
    own = {job.key: job for job in link.find(list(keys))}
    others = tuple(key for key in keys if key not in own)
    jobs = [*own.values(), *(link.runs(JobFilter(keys=others, limit=len(others))) if others else ())]
    return [job.key for job in jobs if job.state is JobState.RUNNING]


class ManagerLink(Protocol):
    def begin(self) -> Begun: ...

    def intent(self) -> Intent: ...

    def enter(self, phase: str, about: str | None = None) -> None:
        """Report that author's code begins: a hook, or a page of the generator. The host watches its time.

        `about`: key of the job in question. The phase lasts until the next phase or sleep. Calls of the link do not
        count as its time.
        """

    def ended(self, limit: int) -> Sequence[Job]:
        """Return attempts with a recorded end and no reaction yet, oldest end first."""

    def react(self, reactions: Sequence[Reaction]) -> None:
        """Record the judgements about ends, all or none."""

    def running(self) -> Sequence[Job]:
        """Return attempts without a recorded end, by number."""

    def jobs(
        self, state: JobState, *, after: int = 0, limit: int, tags: Collection[str] = (), every_flow: bool = False
    ) -> Sequence[Job]:
        """Return a page with the manager's attempts, by number. A page has all attempts of its last item.

        `after`: number on the previous page. `tags`: only jobs with all of the tags. `every_flow`: also the jobs of
        managers with the same name in other flows.
        """

    def runs(self, chosen: JobFilter) -> Sequence[Job]:
        """Return a page with the installation's runs as jobs, newest first. In a play, the play's own runs."""

    def offer(self, page: Page) -> Offered: ...

    def waiting(self, limit: int, *, after: Waiting | None = None) -> Sequence[Waiting]:
        """Return items that may start now, in the order of their choice: delayed, added, from the generator.

        Items of one kind come by number. `after`: the last item on the previous page. An item that is tried again
        counts as added.
        """

    def delay(self, numbers: Collection[int]) -> None:
        """Mark items as delayed by the manager's object. A delayed item stays on top of the others."""

    def start(self, starts: Sequence[Start]) -> Sequence[Job | str | None]:
        """Record attempts, then start their runs. Return jobs, or the problems of permanently refused requests.

        A refused item is stored as refused. None: people have cancelled the item, or hold starts back. The stat
        `crawlmanager/scheduled_jobs` counts the attempts in their transaction. While Temporal is away, the call returns
        after some seconds, and the host makes the starts later.
        """

    def refuse(self, number: int, attempt: int, problem: str) -> None:
        """Record an item as refused: the parameters for its next attempt can never become a run."""

    def stop(self, reasons: Mapping[str, str] | None = None) -> None:
        """Ask the runs of all jobs under way to stop. The call does not wait for their ends.

        `reasons`: the reasons by key, for these jobs alone.
        """

    def commit(self, effects: Effects) -> Sequence[int]:
        """Store effects. Return the numbers of the added items, in their order.

        An item whose key is already stored is not added: its number is the number of the item with the key.
        """

    def find(self, keys: Collection[str]) -> Sequence[Job]:
        """Return the manager's attempts with these keys. Unknown keys are left out."""

    def counts(self) -> Counts: ...

    def sleep(self, seconds: float | None, *, for_news: bool = True) -> Wake:
        """Wait for an end, a further item, a changed intent or the time. `None`: no limit of time.

        `for_news`: False waits for a changed intent or the time alone.
        """

    def wait_for(self, keys: Collection[str], seconds: float) -> Collection[str]:
        """Wait until the jobs have ended, at most for `seconds`. Return the keys of jobs that still run."""

    def close(self, reason: str, effects: Effects) -> bool:
        """Record the manager's end. Items that have not started are cancelled.

        False: people have added items, retried items or ended a drain during the cycle. Nothing has changed, and the
        manager continues.
        """

    def now(self) -> datetime: ...
