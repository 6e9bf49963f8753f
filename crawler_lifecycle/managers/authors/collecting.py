"""`Collected`: jobs, tags, stats and state as requested by author's code, until the ledger stores them as `Effects`."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.turns import FILTERED, LARGEST_STATE, NO_EFFECTS, OURS, SCHEDULED, Effects
from crawler_lifecycle.model.manager_items import Item

LONGEST_TEXT = 4096  # characters in a stat that is a text
LARGEST_WHOLE = 2**53  # the database keeps sums as floats, which hold whole numbers up to this one exactly


def whole(value: float) -> float:
    """Return a whole number as an int: an argument made of it stays the same after another process takes over."""
    return int(value) if abs(value) <= LARGEST_WHOLE and value == int(value) else value


class Stats:
    """Sums and texts by name: the stored ones with the changes since. Scrapy's interface has the unused `spider`."""

    def __init__(self) -> None:
        self.stored: dict[str, float | str] = {}
        self.increments: dict[str, float] = {}
        self.texts: dict[str, str] = {}

    def inc_value(self, name: str, count: float = 1, start: float = 0, spider: object = None) -> None:  # noqa: ARG002
        self._refuse_ledgers_own(name)
        if isinstance(self.get_value(name), str):
            raise BadInput("stats", f"{name!r} is a text, to which no number can be added")
        first = 0 if name in self else start
        self.increments[name] = self.increments.get(name, 0) + first + count

    def set_value(self, name: str, value: float | str, spider: object = None) -> None:  # noqa: ARG002
        self._refuse_ledgers_own(name)
        previous = self.get_value(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise BadInput("stats", f"{name!r} has to be a number or a text, not {str(value)[:100]!r}")
        if isinstance(value, str) or isinstance(previous, str):
            self._set_text(name, value, previous)
        else:
            self.inc_value(name, value - previous)

    def _set_text(self, name: str, value: float | str, previous: float | str) -> None:
        if not isinstance(value, str) or (name in self and not isinstance(previous, str)):
            raise BadInput("stats", f"{name!r} is {previous!r}: a stat stays a number, or stays a text")
        if len(value) > LONGEST_TEXT:
            raise BadInput("stats", f"{name!r} has {len(value)} characters, at most {LONGEST_TEXT} are kept")
        self.texts[name] = value

    def _refuse_ledgers_own(self, name: str) -> None:
        """Refuse a stat that the ledger counts itself: a text would break its writes, and a number its count."""
        if name in (FILTERED, SCHEDULED):
            raise BadInput("stats", f"{name!r} is counted by the manager's ledger: choose another name")

    def max_value(self, name: str, value: float, spider: object = None) -> None:  # noqa: ARG002
        self.set_value(name, max(value, self.get_value(name, value)))

    def min_value(self, name: str, value: float, spider: object = None) -> None:  # noqa: ARG002
        self.set_value(name, min(value, self.get_value(name, value)))

    def set_stats(self, stats: Mapping[str, float | str], spider: object = None) -> None:  # noqa: ARG002
        """Set these values. The other stats stay: they are recorded."""
        for name, value in stats.items():
            self.set_value(name, value)

    def get_value(self, name: str, default: Any = None, spider: object = None) -> Any:  # noqa: ARG002
        """Return the text, or the sum, as a whole number if it is one; without the stat, the default."""
        value = self.texts.get(name, self.stored.get(name, 0))
        if isinstance(value, str):
            return value
        return whole(value + self.increments.get(name, 0)) if name in self else default

    def get_stats(self, spider: object = None) -> Mapping[str, float | str]:  # noqa: ARG002
        return {name: self.get_value(name) for name in sorted({*self.stored, *self.increments, *self.texts})}

    def __contains__(self, name: str) -> bool:
        return name in self.stored or name in self.increments or name in self.texts

    def note(self, name: str, count: float) -> None:
        """Add an increment to the stored sum, for the ledger's own counts too."""
        previous = self.stored.get(name, 0)
        self.stored[name] = previous if isinstance(previous, str) else previous + count

    def take(self) -> tuple[dict[str, float], dict[str, str]]:
        """Return the increments and the texts for the caller to store."""
        increments, texts = self.increments, self.texts
        self.increments, self.texts = {}, {}
        for name, increment in increments.items():
            self.note(name, increment)
        self.stored.update(texts)
        return increments, texts


class Collected:
    """The requests since the last `take`, and the state with the author's changes."""

    def __init__(self) -> None:
        self.add: list[Item] = []
        self.tags: list[str] = []
        self.removed_tags: list[str] = []
        self.lines: list[str] = []
        self.job_tags: dict[str, list[str]] = {}  # by key
        self.close_reason: str | None = None
        self.stats = Stats()
        self.state: dict[str, Any] = {}
        self.memory: dict[str, dict[str, Any]] = {}  # our classes' own values by subject, beside the author's
        self._stored_state = "{}"

    def add_tag(self, tag: str) -> None:
        self.tags.append(tag)
        self.removed_tags = [removed for removed in self.removed_tags if removed != tag]

    def remove_tags(self, tags: Collection[str]) -> None:
        self.tags = [tag for tag in self.tags if tag not in tags]
        self.removed_tags += tags

    def load(self, state: Mapping[str, Any], stats: Mapping[str, float | str]) -> None:
        self.state = dict(state)
        self.memory = self.state.pop(OURS, {})
        self._stored_state = _as_text(self._whole_state())
        self.stats.stored = dict(stats)

    def take(self) -> Effects:
        """Return the requests as effects, and begin anew."""
        state = _as_text(self._whole_state())
        stats, texts = self.stats.take()
        effects = Effects(
            add=tuple(self.add),
            tags=tuple(self.tags),
            removed_tags=tuple(self.removed_tags),
            stats=stats,
            texts=texts,
            state=json.loads(state) if state != self._stored_state else None,
            close_reason=self.close_reason,
            job_tags=self.job_tags,
            lines=tuple(self.lines),
        )
        self.add, self.tags, self.removed_tags, self.lines = [], [], [], []
        self.job_tags, self.close_reason, self._stored_state = {}, None, state
        return effects

    def _whole_state(self) -> dict[str, Any]:
        kept = {subject: values for subject, values in self.memory.items() if any(values.values())}
        return {**self.state, OURS: kept} if kept else self.state

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
