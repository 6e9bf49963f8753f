"""Breaking: circuit breakers over the ends of a manager's jobs. Their memory is stored with the manager's state."""

from collections.abc import Sequence
from typing import Any

from crawler_lifecycle.flows.model.turns import HELD
from crawler_lifecycle.managers.authors.parameters import FullJobParams
from crawler_lifecycle.managers.authors.policies import Breaker, key_of

MOST_KEYS = 5000  # with failures; the keys with the oldest failures are forgotten
FAILURE, SUCCESS = "x", "."


class Breakers:
    """The breakers of a manager. The breakers change the `memory`, a JSON object."""

    def __init__(self, rules: Sequence[Breaker], memory: dict[str, Any]) -> None:
        self._rules = rules
        self._ends: dict[str, str] = memory.setdefault("ends", {})  # last ends by key, the newest last
        self._held: dict[str, list[Any]] = memory.setdefault(HELD, {})  # end of the pause, and the key for people

    def note(self, params: FullJobParams, *, is_failed: bool, now: float) -> list[str]:
        """Take notice of an end. Return lines for the timeline about keys that are held back from now on."""
        return [line for rule in self._rules if (line := self._note(rule, params, now, is_failed=is_failed))]

    def hold(self, params: FullJobParams, now: float) -> bool:
        """Return whether a breaker holds the job back."""
        self._release(now)
        return any(_place(rule, params) in self._held for rule in self._rules)

    def seconds_to_next(self, now: float) -> float | None:
        """Return the seconds until a held key is free; None without a held key."""
        return max(0.0, min(until for until, _ in self._held.values()) - now) if self._held else None

    def _note(self, rule: Breaker, params: FullJobParams, now: float, *, is_failed: bool) -> str | None:
        place = _place(rule, params)
        if place is None or place in self._held:
            return None
        ends = (self._ends.pop(place, "") + (FAILURE if is_failed else SUCCESS))[-rule.last :]
        if ends.count(FAILURE) >= rule.failures:
            key, number = key_of(rule.key, params), ends.count(FAILURE)
            self._held[place] = [now + rule.pause, key]
            return f"holds {key} back for {rule.pause:g} s: {number} of the last {len(ends)} jobs have failed"
        if FAILURE in ends:
            self._ends[place] = ends
        while len(self._ends) > MOST_KEYS:
            del self._ends[next(iter(self._ends))]
        return None

    def _release(self, now: float) -> None:
        for place in [place for place, (until, _) in self._held.items() if until <= now]:
            del self._held[place]


def _place(rule: Breaker, params: FullJobParams) -> str | None:
    key = key_of(rule.key, params)
    return None if key is None else f"{rule.key} {key}"
