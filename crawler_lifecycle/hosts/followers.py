"""Followers in a host: steps for an activity to start right after its own steps."""

from collections.abc import Collection, Iterable

from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, FollowingStep
from crawler_lifecycle.model.flow_states import EndKind


class Followers:
    """An activity's followers. A follower is due as soon as all steps before it have completed."""

    def __init__(self, followers: Iterable[FollowingStep]) -> None:
        self._all = {follower.start.number: follower for follower in followers}
        self._waiting = dict(self._all)
        self._foreign: set[int] = set()  # followers for other hosts
        self._completed: set[int] = set()
        self.started: set[int] = set()  # followers with a recorded attempt
        self.is_awaited = False  # whether the supervisor waits for the answer

    def note_end(self, end: AttemptEnd) -> None:
        if end.kind is EndKind.COMPLETED:
            self._completed.add(end.number)
        self.note_start(end.number)
        follower = self._all.get(end.number)
        self.is_awaited |= end.kind is not EndKind.COMPLETED or (follower is not None and follower.is_awaited)

    def note_start(self, number: int) -> None:
        """Note that the member's attempt is recorded."""
        if number in self._all:
            self.started.add(number)

    def take_due(self, *, is_late: bool) -> list[AttemptRef]:
        """Return the due followers, once; none as soon as the supervisor waits for the answer.

        The supervisor waits if a due follower is for another host, or becomes due late: then it plans the start.
        """
        if self.is_awaited:
            return []
        due = [number for number, follower in self._waiting.items() if self._completed.issuperset(follower.after)]
        starts = [self._waiting.pop(number).start for number in due]
        self.is_awaited = not self._foreign.isdisjoint(due) or (bool(due) and is_late)
        return [] if self.is_awaited else starts

    def beyond(self, numbers: Iterable[int], most: int) -> list[int]:
        """Return the members beyond the limit for new followers. The supervisor starts them elsewhere."""
        new = [number for number in numbers if number in self._all and number not in self.started]
        self.is_awaited |= len(new) > most
        return new[most:]

    def refuse(self, number: int) -> bool:
        """Start no further followers after a refusal; return False for a member without a follower's part."""
        if number not in self._all:
            return False
        self._waiting.clear()
        self.started.discard(number)
        self.is_awaited = True
        return True

    def keep(self, numbers: Collection[int]) -> None:
        """Leave followers with other numbers to other hosts."""
        self._foreign = set(self._all).difference(numbers)

    def before(self, numbers: Iterable[int]) -> set[int]:
        """Return the members with a necessary end before the numbers' starts."""
        return {before for number in numbers if number in self._all for before in self._all[number].after}
