"""Port for the hosts of crawl managers: the ledger with a manager's items and their attempts.

A manager is a step of its flow. Every method first compares the token of the attempt's last begin, and raises Fenced if
another host has begun the attempt. Writes lock the flow's row before.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from pydantic import JsonValue

from crawler_lifecycle.flows.model.manager_records import OutputLine
from crawler_lifecycle.flows.model.turns import Begun, Counts, Effects, ManagerIntent, Offered, Page, Reaction, Start
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.model.manager_items import CodeProblem, Job, JobFilter, JobState, Waiting
from crawler_lifecycle.model.requests import RunRequest

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManagerRef:
    """A manager's attempt, with the token of its host."""

    flow_uid: str
    member: int
    attempt: int
    token: str


@dataclass(frozen=True, slots=True)
class ManagerStart:
    """A recorded attempt. `request`: for the run's workflow, whose id is the job's key."""

    job: Job
    request: RunRequest


@dataclass(frozen=True, slots=True)
class ManagerStarts:
    started: Sequence[ManagerStart] = ()
    stale: Sequence[int] = ()  # numbers of items that do not start: cancelled, or held back by people


@dataclass(frozen=True, slots=True)
class ManagerNews:
    """News for a manager's object that waits."""

    ref: ManagerRef
    intent: ManagerIntent
    has_ends: bool  # whether an end was not reacted to yet
    has_due: bool  # whether the pause of an item has ended since the given time
    items_door: int  # number of the last door that added or renewed items, or ended a drain
    has_problem: bool  # whether a failure pauses the manager


Setbacks = Mapping[str, JsonValue]  # a host's counts of failures in author's code


class ManagerLedger(Protocol):
    """The ledger that serves `managers.authors.link.ManagerLink`.

    Every method is one transaction, and may be called twice.

    Items have numbers from 1. `number` in messages is an item's number, and not its number as the flow's member.
    `setbacks` are the host's counts after the call's progress, for the next host; None: the recorded counts stay.
    """

    def begin(self, ref: ManagerRef, child: str) -> Begun:
        """Record the object's beginning. `child`: id of the object's process; a new id is a new incarnation.

        A manager that has ended in an earlier attempt begins anew with its items: its time counts from now, and it has
        no close reason. In the same attempt, its end stays.
        """

    def intent(self, ref: ManagerRef) -> ManagerIntent: ...

    def news(self, token: str, since: datetime) -> list[ManagerNews]:
        """Return the news for all managers whose attempts have the token, with one statement."""

    def ended(self, ref: ManagerRef, limit: int, *, without: Collection[str] = ()) -> list[Job]:
        """Return attempts with an end that was not reacted to, oldest end first. `without`: keys of further jobs."""

    def react(self, ref: ManagerRef, reactions: Sequence[Reaction], setbacks: Setbacks | None = None) -> int:
        """Record the judgements about ends, with all effects in the order of the reactions.

        Return the number of recorded reactions. A second reaction to an attempt changes nothing. An item that people
        have cancelled stays cancelled. If a run has been reopened since its end was read, its reaction and all later
        reactions are left out: their state includes the state of the reaction to the previous end. All these ends
        get further reactions.
        """

    def running(self, ref: ManagerRef) -> list[Job]:
        """Return attempts without a recorded end, by number."""

    def jobs(
        self,
        ref: ManagerRef,
        state: JobState,
        *,
        after: int = 0,
        limit: int,
        every_flow: bool = False,
    ) -> list[Job]:
        """Return a page with attempts, by number.

        `every_flow`: also the jobs of managers with the same name in other flows. A page ends with all jobs that have
        its last number, and may be longer than the limit.
        """

    def runs(self, ref: ManagerRef, chosen: JobFilter) -> list[Job]:
        """Return a page with the installation's runs as jobs, newest first, in and outside flows."""

    def offer(self, ref: ManagerRef, page: Page, setbacks: Setbacks | None = None) -> Offered:
        """Store a page of the generator. Conflict if parameter sets are missing before the page.

        The part of the page that is already stored changes nothing, and its items have their numbers if they have
        keys.
        """

    def waiting(self, ref: ManagerRef, limit: int, *, after: Waiting | None = None) -> list[Waiting]:
        """Return items that may start now: delayed items, added or retried items, and items from the generator."""

    def delay(self, ref: ManagerRef, numbers: Collection[int]) -> None: ...

    def start(self, ref: ManagerRef, starts: Sequence[Start]) -> ManagerStarts:
        """Record attempts. An attempt from an earlier call without an end is returned again.

        The stat `crawlmanager/scheduled_jobs` counts the new attempts.
        """

    def unstarted(self, ref: ManagerRef, before: datetime | None = None) -> list[ManagerStart]:
        """Return recorded attempts without a run: the previous host may have died before their start.

        `before`: only attempts from before this time.
        """

    def refuse(self, ref: ManagerRef, number: int, attempt: int, refusal: Refusal) -> None:
        """Record that the attempt never gets a run. Only people let its item start again.

        The attempt itself may be off record: then the request is refused before its start. An attempt with a run stays.
        """

    def commit(self, ref: ManagerRef, effects: Effects, call: str, setbacks: Setbacks | None = None) -> list[int]:
        """Store effects. Return the numbers of the added items, in their order.

        `call`: the call's id, by which a repeated call is known. An item whose key is already stored is not added: its
        number is the number of the item with the key.
        """

    def find(self, ref: ManagerRef, keys: Collection[str]) -> list[Job]:
        """Return the manager's attempts with these keys, by number. Unknown keys are left out."""

    def counts(self, ref: ManagerRef) -> Counts: ...

    def pause(self, ref: ManagerRef, problem: CodeProblem) -> None:
        """Record the failure. The manager's object does not run until the problem is cleared."""

    def problem(self, ref: ManagerRef) -> CodeProblem | None: ...

    def keep_output(self, ref: ManagerRef, lines: Sequence[OutputLine]) -> None:
        """Add lines by the object's process to the stored last lines, also after the manager's end."""

    def close(self, ref: ManagerRef, reason: str, effects: Effects, items_door: int) -> int | None:
        """Record the manager's end, and cancel items that have not started. A second call changes nothing.

        `items_door`: the last door in the object's knowledge. If people have added or renewed items or ended a drain
        since then, and do not want the manager's end, nothing changes, and the answer is the number of the last door. A
        stop settles ends without a reaction by the runs' own ends. After a retry since the stop, items and ends stay
        for the manager's next attempt.
        """


def _of_ledger(
    method: Callable[Concatenate[ManagerLedger, ManagerRef, P], T],
) -> Callable[Concatenate["LedgerCalls", P], T]:
    """Return the ledger's method as a method of the link."""

    def call(link: "LedgerCalls", /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = link.ask(lambda ledger, ref: getattr(ledger, method.__name__)(ref, *args, **kwargs))
        return answer

    return call


class LedgerCalls:
    """The calls of `managers.authors.link.ManagerLink` that the ledger answers alone."""

    def ask(self, call: Callable[[ManagerLedger, ManagerRef], T]) -> T:
        """Return the ledger's answer about the link's own manager."""
        raise NotImplementedError

    intent = _of_ledger(ManagerLedger.intent)
    running = _of_ledger(ManagerLedger.running)
    jobs = _of_ledger(ManagerLedger.jobs)
    runs = _of_ledger(ManagerLedger.runs)
    waiting = _of_ledger(ManagerLedger.waiting)
    delay = _of_ledger(ManagerLedger.delay)
    find = _of_ledger(ManagerLedger.find)
    counts = _of_ledger(ManagerLedger.counts)
