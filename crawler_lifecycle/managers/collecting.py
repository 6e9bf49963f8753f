"""Collecting: wishes by author's code in a hook or a turn, until they go on record as effects."""

import json
from collections.abc import Mapping
from typing import Any

from crawler_lifecycle.contract.managers.items import Item
from crawler_lifecycle.contract.managers.turns import LARGEST_STATE, NO_EFFECTS, Effects
from crawler_lifecycle.errors import BadInput


class Stats:
    """Sums by name, as on record and with the increments since."""

    def __init__(self) -> None:
        self.on_record: dict[str, float] = {}
        self.increments: dict[str, float] = {}

    def inc_value(self, name: str, count: float = 1) -> None:
        self.increments[name] = self.increments.get(name, 0) + count

    def set_value(self, name: str, value: float) -> None:
        self.inc_value(name, value - self.get_value(name))

    def get_value(self, name: str, default: float = 0) -> float:
        if name not in self.on_record and name not in self.increments:
            return default
        return self.on_record.get(name, 0) + self.increments.get(name, 0)

    def get_stats(self) -> Mapping[str, float]:
        return {name: self.get_value(name) for name in sorted({*self.on_record, *self.increments})}

    def take(self) -> dict[str, float]:
        """Return the increments, which are on record from now on."""
        taken, self.increments = self.increments, {}
        for name, increment in taken.items():
            self.on_record[name] = self.on_record.get(name, 0) + increment
        return taken


class Collected:
    """The wishes so far."""

    def __init__(self) -> None:
        self.add: list[Item] = []
        self.tags: list[str] = []
        self.lines: list[str] = []
        self.close_reason: str | None = None
        self.stats = Stats()
        self.state: dict[str, Any] = {}
        self._state_on_record = "{}"

    def load(self, state: Mapping[str, Any], stats: Mapping[str, float]) -> None:
        self.state = dict(state)
        self._state_on_record = _as_text(self.state)
        self.stats.on_record = dict(stats)

    def take(self) -> Effects:
        """Return the wishes as effects, and begin anew."""
        state = _as_text(self.state)
        effects = Effects(
            add=tuple(self.add),
            tags=tuple(self.tags),
            stats=self.stats.take(),
            state=json.loads(state) if state != self._state_on_record else None,
            close_reason=self.close_reason,
            lines=tuple(self.lines),
        )
        self.add, self.tags, self.lines, self.close_reason, self._state_on_record = [], [], [], None, state
        return effects

    def take_if_any(self) -> Effects | None:
        effects = self.take()
        return None if effects == NO_EFFECTS else effects


def _as_text(state: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(state, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise BadInput("state", f"is no JSON: {error}") from error
    if len(text) > LARGEST_STATE:
        raise BadInput("state", f"has {len(text)} bytes as JSON, at most {LARGEST_STATE} are kept")
    return text
