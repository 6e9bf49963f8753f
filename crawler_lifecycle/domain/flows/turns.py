"""Turns: the order in which available members start, within the limits of the flow and its groups.

Higher priorities start first, then lower numbers. A full group blocks its own members and no others.
"""

from heapq import heappop, heappush

from crawler_lifecycle.domain.flows.rows import TOP, GroupRow, MemberRow

Key = tuple[int, int]  # priority, highest first, then number
Entry = tuple[Key, int, bool]  # key, number of a member or group, whether the number is a group's


class Turns:
    """Waiting members in one heap for every group. A group's first member stands for the group in its parent's heap."""

    def __init__(self) -> None:
        self._parents: dict[int, int | None] = {}
        self._limits: dict[int, int | None] = {}
        self._running: dict[int, int] = {}
        self._heaps: dict[int, list[Entry]] = {}
        self._waiting: dict[int, Key] = {}
        self._announced: dict[int, Key] = {}  # key for the group's only valid entry in its parent's heap

    def put_group(self, group: GroupRow, limit: int | None) -> None:
        """Add the group, or change its limit. Parents come before their groups."""
        self._parents[group.number] = group.parent
        self._limits[group.number] = limit
        self._running.setdefault(group.number, 0)
        self._heaps.setdefault(group.number, [])
        self._announce(group.number)

    def wait(self, row: MemberRow) -> None:
        """Let the member wait for its turn."""
        key = (-row.priority, row.number)
        if self._waiting.get(row.number) == key:
            return
        self._waiting[row.number] = key
        heappush(self._heaps[row.group], (key, row.number, False))
        self._announce(row.group)

    @property
    def waiting(self) -> int:
        """Number of members that wait."""
        return len(self._waiting)

    def leave(self, number: int) -> None:
        self._waiting.pop(number, None)

    def occupy(self, group: int) -> None:
        """Count a member with an attempt under way, in its group and all groups around it."""
        for around in self._around(group):
            self._running[around] += 1

    def release(self, group: int) -> None:
        for around in self._around(group):
            self._running[around] -= 1
        self._announce(group)

    def has_limit(self, group: int) -> bool:
        """Return whether the group or a group around it has a limit."""
        return any(self._limits[around] is not None for around in self._around(group))

    def full_group(self, group: int) -> int | None:
        """Return the first full group from the group outwards."""
        return next((around for around in self._around(group) if self._is_full(around)), None)

    def take(self) -> int | None:
        """Return the next member, which then waits no more; None if no member may start."""
        group = TOP
        while not self._is_full(group) and self._first(group) is not None:
            _, number, is_group = heappop(self._heaps[group])
            if is_group:
                del self._announced[number]
            else:
                del self._waiting[number]
                self._announce(group)
                return number
            group = number
        return None

    def _is_full(self, group: int) -> bool:
        limit = self._limits[group]
        return limit is not None and self._running[group] >= limit

    def _first(self, group: int) -> Key | None:
        """Return the key for the group's first startable member; outdated entries leave the heap."""
        heap = self._heaps[group]
        while heap:
            key, number, is_group = heap[0]
            if not is_group:
                if self._waiting.get(number) == key:
                    return key
                heappop(heap)
            elif self._announced.get(number) != key:
                heappop(heap)
            else:
                current = None if self._is_full(number) else self._first(number)
                if current == key:
                    return key
                heappop(heap)
                self._replace_entry(group, number, current)
        return None

    def _announce(self, group: int) -> None:
        """Let the group's first member stand for the group in all heaps around the group."""
        for around in self._around(group):
            parent = self._parents[around]
            if parent is not None and not self._is_full(around):
                first = self._first(around)
                if first != self._announced.get(around):
                    self._replace_entry(parent, around, first)

    def _replace_entry(self, parent: int, group: int, key: Key | None) -> None:
        if key is None:
            self._announced.pop(group, None)
        else:
            self._announced[group] = key
            heappush(self._heaps[parent], (key, group, True))

    def _around(self, group: int) -> list[int]:
        chain = []
        current: int | None = group
        while current is not None:
            chain.append(current)
            current = self._parents[current]
        return chain
