"""Course: a flow's planner, and the further state in common for the supervisor's parts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from temporalio import workflow

from crawler_lifecycle.base.ranges import from_ranges
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef, LedgerPage, RunSteps, StepsEnded
from crawler_lifecycle.flows.rules.plan import AttemptStart
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import GroupRow, Ledger, MemberRow
from crawler_lifecycle.flows.rules.unconfirmed import Unconfirmed
from crawler_lifecycle.flows.workflows.writes import Writes


def planner_of(page: LedgerPage, members: Iterable[MemberRow], groups: Iterable[GroupRow]) -> Planner:
    """Return a planner for the stored rows. `page`: any page from the same reading."""
    ledger = Ledger(page.row)
    ledger.put(members, groups)
    return Planner(ledger)


@dataclass
class Course:
    """A flow as its supervisor knows the flow. `door`: number of the last door whose rows the planner has."""

    flow: FlowRef
    flow_id: str
    planner: Planner
    door: int
    writes: Writes
    unconfirmed: Unconfirmed
    _handed: Counter[int] = field(default_factory=Counter)  # followers with hosts, by number
    _followed: dict[int, int] = field(default_factory=dict)  # last attempt by a host's own start, by number

    def renew(self, planner: Planner, door: int, *, writes: int, starts: int) -> None:
        """Continue from newly read rows. Stored writes and starts may be lost."""
        self.planner, self.door = planner, door
        self.flow = self.flow.model_copy(update={"writes": writes, "starts": starts})
        self.writes.clear()
        self.unconfirmed.clear()
        self._followed.clear()

    def note(self, *, writes: int = 0, starts: int = 0) -> None:
        """Note stored numbers. From now on, acts are refused on a database without them."""
        known = self.flow
        if writes > known.writes or starts > known.starts:
            numbers = {"writes": max(writes, known.writes), "starts": max(starts, known.starts)}
            self.flow = known.model_copy(update=numbers)

    @property
    def handed(self) -> Iterable[int]:
        """Members for hosts to start on their own. A reading reads these members, which may be under way."""
        return self._handed.keys()

    def hand(self, step: RunSteps) -> None:
        self._handed.update(follower.start.number for follower in step.followers)

    def take_followers(self, step: RunSteps, answer: StepsEnded) -> None:
        """Take the host's own starts."""
        if not step.followers:
            return
        self._handed = +(self._handed - Counter(follower.start.number for follower in step.followers))
        followed = set(from_ranges(answer.followed))
        for start in (follower.start for follower in step.followers if follower.start.number in followed):
            self._followed[start.number] = start.attempt
            self.unconfirmed.confirm(start.number, start.attempt)
            self.planner.follow(AttemptStart(start.number, start.generation, start.attempt), workflow.now())

    def is_overtaken(self, row: MemberRow) -> bool:
        """Return whether the row was read before a host's own start."""
        return row.attempt < self._followed.get(row.number, 0)

    def refuse(self, start: AttemptRef, door: int) -> bool:
        """Take a start that a host has refused. Return False if the start was planned anew after the door.

        An attempt that the planner believes to be recorded is not recorded after all: the row has to be read.
        """
        is_pending = self.unconfirmed.find(start.number, start.attempt) is not None
        if not is_pending and self.is_under_way(start.number, start.attempt):
            self._followed.pop(start.number, None)
            return True
        return self.unconfirmed.refuse(start.number, start.attempt, door)

    def observe_ends(self, ends: Iterable[AttemptEnd]) -> None:
        """Take ends of attempts. An attempt with an end is recorded."""
        for end in ends:
            self.unconfirmed.confirm(end.number, end.attempt)
            self.planner.observe(end)

    def is_under_way(self, number: int, attempt: int) -> bool:
        """Return whether the member's present attempt is this attempt, and has not ended."""
        row = self.planner.rows.get(number)
        return row is not None and row.in_flight and row.attempt == attempt
