"""Choose the steps for a host's activity: a slice of steps with the same function, or a step with its followers.

Both save round trips to the supervisor. The host begins a slice's steps together. Followers are dependents, started by
the host right after the step. The planner alone decides which steps may follow: their dependencies are in the same
activity, or have ended for good. Only a door (a request to the flow) can change a dependency, and the host starts no
follower after a door.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil

from crawler_lifecycle.base.ranges import to_ranges_by_value
from crawler_lifecycle.flows.rules.messages import AttemptRef, FollowingStep
from crawler_lifecycle.flows.rules.network import OPEN, Node
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.flows.rules.rows import MemberRow
from crawler_lifecycle.flows.rules.wiring import ignored_by
from crawler_lifecycle.model.flow_states import MemberKind, MemberState

MOST_FOLLOWERS = 50
MOST_CHARACTERS = 8_000  # in the followers' routes, for a small activity
MOST_AT_ONCE = 4  # a step's dependents; several hosts share a larger number
MOST_IN_A_SLICE = 50
FEWEST_IN_A_SLICE = 8
SLICES = 8  # several hosts share a group's steps
SLOW_SECONDS = 1.0  # mean time in a function


def followers(planner: Planner, number: int) -> tuple[FollowingStep, ...]:
    """Return the followers for the member's present attempt, in the order for their starts.

    No dependent follows if the supervisor has to start one of them: the host's answer would come after the followers.
    """
    first = planner.rows[number]
    if planner.turns.has_limit(first.group):
        return ()
    chosen: list[int] = []
    waiting = deque([number])
    awaited: set[int] = set()
    while waiting:
        current = waiting.popleft()
        new = _followers_of(planner, planner.rows[current], {number, *chosen})
        if new is None or not _fit(planner, [*chosen, *new]):
            awaited.add(current)
        else:
            chosen += new
            waiting += new
    return tuple(
        _follower(planner, following, {number, *chosen}, is_awaited=following in awaited) for following in chosen
    )


def reads(planner: Planner, numbers: Iterable[int]) -> str:
    """Return the attempts of the completed members that these members depend on, also by way of groups and quorums.

    An attempt without a stored end shows the host a loss in the database. So the members before an approval are
    included: the decision may be stored, and an earlier end lost. A decision has its generation as its attempt.
    """
    rows = (planner.rows[source] for source in _sources(planner, numbers))
    return to_ranges_by_value(
        {
            row.number: row.generation if row.kind is MemberKind.APPROVAL else row.attempt
            for row in rows
            if row.state is MemberState.COMPLETED
        }
    )


class Slices:
    """Slices for starts. `note` learns how slow the functions are."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[int, float]] = {}  # steps and seconds by route

    def note(self, route: str, steps: int, seconds: float) -> None:
        earlier_steps, earlier_seconds = self._spent.get(route, (0, 0.0))
        self._spent[route] = (earlier_steps + steps, earlier_seconds + seconds)

    def cut(self, numbers: Sequence[int], planner: Planner) -> Iterator[list[int]]:
        """Yield the members with a common start. All members in a slice have the same group and route."""
        together: dict[tuple[int, str], list[int]] = {}
        for number in numbers:
            row = planner.rows[number]
            if planner.wiring.is_awaited_alone(number) or self.is_slow(row.route):
                yield [number]
            else:
                together.setdefault((row.group, row.route), []).append(number)
        for same in together.values():
            yield from _pages(same, _size(len(same), planner.turns.waiting))

    def is_slow(self, route: str) -> bool:
        """Return whether the route's functions take long."""
        steps, seconds = self._spent.get(route, (0, 0.0))
        return seconds > SLOW_SECONDS * steps


def _sources(planner: Planner, numbers: Iterable[int]) -> Iterator[int]:
    """Yield the members that these members depend on, also by way of approvals, once.

    A graft's first members wait for the grafter alone, and read the results around the graft.
    """
    waiting = deque(planner.node(number) for number in numbers)
    known = set(waiting)
    while waiting:
        for source in waiting.popleft().inputs:
            if source in known:
                continue
            known.add(source)
            if source.member is None:
                waiting.append(source)
                continue
            yield source.member
            if planner.rows[source.member].kind is MemberKind.APPROVAL:
                waiting.append(source)
            waiting += planner.wiring.gates_around_grown(source.member)


def _fit(planner: Planner, numbers: Collection[int]) -> bool:
    characters = sum(len(planner.rows[number].route) for number in numbers)
    return len(numbers) <= MOST_FOLLOWERS and characters <= MOST_CHARACTERS


def _followers_of(planner: Planner, row: MemberRow, known: Collection[int]) -> list[int] | None:
    """Return the unknown dependents in an order for their starts; None if a dependent cannot follow."""
    node = planner.node(row.number)
    own_end = planner.wiring.end(row.group)  # stays open, since all followers are in the group
    if node.watchers or len(node.outputs) > MOST_AT_ONCE + 1:
        return None
    dependents = {output.member for output in node.outputs if output is not own_end}
    if None in dependents:
        return None
    together, new = set(known), list[int]()
    for number in sorted(number for number in dependents if number is not None and number not in known):
        if not _may_follow(planner, planner.rows[number], row, together):
            return None
        together.add(number)
        new.append(number)
    return new


def _may_follow(planner: Planner, row: MemberRow, before: MemberRow, known: Collection[int]) -> bool:
    node = planner.node(row.number)
    is_step = row.kind is MemberKind.STEP and _module_of(row) == _module_of(before)
    is_new = row.state is MemberState.SUSPENDED and not row.in_flight and row.tries == 0
    if not (is_step and is_new and row.group == before.group and row.start_at is None):
        return False
    if node.open > len(known):  # else the loop below would look at every input for every follower
        return False
    return not node.unignored(ignored_by(row)) and all(_is_certain(planner, source, known) for source in node.inputs)


def _is_certain(planner: Planner, source: Node, known: Collection[int]) -> bool:
    """Return whether the dependency is among the known members, or has ended for good.

    A run may be reopened. Then a crawl is open again, and so are the members that its end has cancelled.
    """
    if source.member is None or source.member in known:
        return source.member is not None
    row = planner.rows[source.member]
    return not source.value & OPEN and row.kind is not MemberKind.CRAWL and not row.is_cancelled_by_dependency


def _module_of(row: MemberRow) -> str:
    """Return the queue and the module, which choose the step's hosts."""
    return row.route.rpartition("|")[0]


def _follower(planner: Planner, number: int, known: Collection[int], *, is_awaited: bool) -> FollowingStep:
    row = planner.rows[number]
    sources: Iterable[int | None] = {source.member for source in planner.node(number).inputs}
    return FollowingStep(
        start=AttemptRef(number=number, generation=row.generation, attempt=row.attempt + 1),
        route=row.route,
        after=tuple(sorted(source for source in sources if source is not None and source in known)),
        is_awaited=is_awaited,
    )


def _size(starts: int, waiting: int) -> int:
    """Return the slices' size, by the number of starts and waiting steps."""
    if starts < FEWEST_IN_A_SLICE:
        return 1
    share = ceil((starts + waiting) / SLICES)
    return min(MOST_IN_A_SLICE, max(FEWEST_IN_A_SLICE, share))


def _pages(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    rest = iter(numbers)
    while page := list(islice(rest, size)):
        yield page
