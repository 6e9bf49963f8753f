"""Rules for the order in which available members start, within the limits of the flow and its groups.

Higher priorities start first, then lower numbers. A full group blocks its own members and no others. A flow without a
limit of its own has at most MOST_CRAWLS crawls under way: also a run that waits for its permit has costs.
"""

from heapq import heappop, heappush

from crawler_lifecycle.flows.rules.rows import TOP, GroupRow, MemberRow
from crawler_lifecycle.model.flow_states import MemberKind

MOST_CRAWLS = 1_000  # as many tasks as an installation has in the cluster unless configured otherwise

Key = tuple[int, int]  # priority, highest first, then number
Entry = tuple[Key, int, bool]  # key, number of a member or group, whether the number is a group's


class Groups:
    """The groups of a flow: their limits, and the number of their members with an attempt under way."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.limits: dict[int, int | None] = {}
        self._running: dict[int, int] = {}
        self._crawls = 0

    def put(self, number: int, parent: int | None, limit: int | None) -> None:
        self.parents[number] = parent
        self.limits[number] = limit
        self._running.setdefault(number, 0)

    def count(self, row: MemberRow, change: int) -> None:
        """Count the member's attempt in its group and all groups around it."""
        self._crawls += change if row.kind is MemberKind.CRAWL else 0
        for around in self.around(row.group):
            self._running[around] += change

    def is_full(self, group: int) -> bool:
        limit = self.limits[group]
        return limit is not None and self._running[group] >= limit

    @property
    def have_all_crawls(self) -> bool:
        """Whether the flow has as many crawls under way as a flow without a limit of its own may have."""
        return self.limits[TOP] is None and self._crawls >= MOST_CRAWLS

    def around(self, group: int) -> list[int]:
        chain = []
        current: int | None = group
        while current is not None:
            chain.append(current)
            current = self.parents[current]
        return chain


class Line:
    """Waiting members in one heap for every group. A group's first member represents the group in its parent's heap."""

    def __init__(self, groups: Groups) -> None:
        self.waiting: dict[int, Key] = {}
        self._groups = groups
        self._heaps: dict[int, list[Entry]] = {}
        self._announced: dict[int, Key] = {}  # key for the group's only valid entry in its parent's heap

    def wait(self, row: MemberRow) -> None:
        key = (-row.priority, row.number)
        if self.waiting.get(row.number) == key:
            return
        self.waiting[row.number] = key
        heappush(self._heap(row.group), (key, row.number, False))
        self.announce(row.group)

    def first(self) -> Key | None:
        """Return the key for the first member that may start."""
        return None if self._groups.is_full(TOP) else self._first(TOP)

    def take(self) -> int:
        """Return the first member, which then waits no more. `first` was asked just before."""
        group, is_group = TOP, True
        while is_group:
            _, number, is_group = heappop(self._heap(group))
            if is_group:
                del self._announced[number]
                group = number
        del self.waiting[number]
        self.announce(group)
        return number

    def announce(self, group: int) -> None:
        """Let the group's first member represent the group in all heaps around the group."""
        for around in self._groups.around(group):
            parent = self._groups.parents[around]
            if parent is not None and not self._groups.is_full(around):
                first = self._first(around)
                if first != self._announced.get(around):
                    self._replace_entry(parent, around, first)

    def _heap(self, group: int) -> list[Entry]:
        return self._heaps.setdefault(group, [])

    def _first(self, group: int) -> Key | None:
        """Return the key for the group's first startable member; outdated entries leave the heap."""
        heap = self._heap(group)
        while heap:
            key, number, is_group = heap[0]
            if not is_group:
                if self.waiting.get(number) == key:
                    return key
                heappop(heap)
            elif self._announced.get(number) != key:
                heappop(heap)
            else:
                current = None if self._groups.is_full(number) else self._first(number)
                if current == key:
                    return key
                heappop(heap)
                self._replace_entry(group, number, current)
        return None

    def _replace_entry(self, parent: int, group: int, key: Key | None) -> None:
        if key is None:
            self._announced.pop(group, None)
        else:
            self._announced[group] = key
            heappush(self._heap(parent), (key, group, True))


class Turns:
    """The waiting members in two lines, crawls and others, with common limits."""

    def __init__(self) -> None:
        self._groups = Groups()
        self._crawls, self._others = Line(self._groups), Line(self._groups)

    def put_group(self, group: GroupRow, limit: int | None) -> None:
        """Add the group, or change its limit. Parents come before their groups."""
        self._groups.put(group.number, group.parent, limit)
        self._announce(group.number)

    def wait(self, row: MemberRow) -> None:
        """Let the member wait for its turn. A push may have changed the member's kind."""
        line, other = (self._crawls, self._others) if row.kind is MemberKind.CRAWL else (self._others, self._crawls)
        other.waiting.pop(row.number, None)
        line.wait(row)

    @property
    def waiting(self) -> int:
        """Number of members that wait, without crawls."""
        return len(self._others.waiting)

    def leave(self, number: int) -> None:
        self._crawls.waiting.pop(number, None)
        self._others.waiting.pop(number, None)

    def occupy(self, row: MemberRow) -> None:
        """Count a member with an attempt under way."""
        self._groups.count(row, 1)

    def release(self, row: MemberRow) -> None:
        self._groups.count(row, -1)
        self._announce(row.group)

    def has_limit(self, group: int) -> bool:
        """Return whether the group or a group around it has a limit."""
        return any(self._groups.limits[around] is not None for around in self._groups.around(group))

    def full_group(self, row: MemberRow) -> int | None:
        """Return the first full group from the member's group outwards; the flow for a crawl beyond MOST_CRAWLS."""
        full = next((around for around in self._groups.around(row.group) if self._groups.is_full(around)), None)
        is_held_back = row.kind is MemberKind.CRAWL and self._groups.have_all_crawls
        return TOP if full is None and is_held_back else full

    def take(self) -> int | None:
        """Return the next member, which then waits no more; None if no member may start."""
        is_held_back = self._groups.have_all_crawls
        lines = [line for line in self._lines if not (is_held_back and line is self._crawls)]
        startable = [(key, line) for line in lines if (key := line.first()) is not None]
        return min(startable, key=lambda entry: entry[0])[1].take() if startable else None

    @property
    def _lines(self) -> list[Line]:
        return [line for line in (self._crawls, self._others) if line.waiting]

    def _announce(self, group: int) -> None:
        for line in self._lines:
            line.announce(group)
