"""An author's rules as data: for retries, for failing spiders or sites, and for jobs at once.

Circuit breakers judge the ends of a manager's jobs; their memory is stored with the manager's state.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from crawler_lifecycle.flows.model.turns import HELD
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobParams
from crawler_lifecycle.model.manager_items import Job, Waiting

ANY_OUTCOME = "*"  # in a retry policy: every outcome without a rule of its own
MOST_KEYS = 5000  # with failures; the keys with the oldest failures are forgotten
FAILURE, SUCCESS = "x", "."


def key_of(template: str, params: FullJobParams) -> str | None:
    """Return the job's key; None if the job has not all fields."""
    fields = {**(params.get("spider_args") or {}), "spider": params.get("spider")}
    try:
        return template.format_map(fields)
    except (KeyError, AttributeError, IndexError):
        return None


@dataclass(frozen=True, kw_only=True)
class RetryRule:
    """Rule for further tries after an outcome. An outcome with a rule of its own counts as failed."""

    tries: int | None = None  # further tries of a job; default: MAX_RETRIES
    pause: float = 0.0  # seconds before the first further try
    pause_factor: float = 1.0  # for each pause after the first
    longest_pause: float = 24 * 3600.0
    memory_factor: float = 1.0  # memory for the next try, times the memory before
    most_memory: float = 8.0  # largest factor over the memory in the catalogue
    spider_args: Mapping[str, Any] = field(default_factory=dict)  # over the previous arguments
    job_settings: Mapping[str, Any] = field(default_factory=dict)

    def seconds_before(self, number: int) -> float:
        """Return the pause before the further try with this number, from 1."""
        return min(self.longest_pause, self.pause * self.pause_factor ** (number - 1))

    def changes(self, former_memory: float) -> JobParams:
        """Return the changed parameters. `former_memory`: factor of the last try."""
        changed: JobParams = {}
        if self.memory_factor != 1.0:
            changed["units"] = max(former_memory, min(self.most_memory, former_memory * self.memory_factor))
        if self.spider_args:
            changed["spider_args"] = dict(self.spider_args)
        if self.job_settings:
            changed["job_settings"] = dict(self.job_settings)
        return changed


RetryPolicy = Mapping[str, RetryRule]
NO_RULE = RetryRule()


def rule_for(policy: RetryPolicy, outcome: str) -> RetryRule:
    return policy.get(outcome) or policy.get(ANY_OUTCOME) or NO_RULE


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """Holds the jobs of a key back for a time after failures. Jobs with other keys continue."""

    key: str = "{spider}"
    failures: int
    last: int  # number of the last ends to count the failures in
    pause: float  # seconds


class Caps:
    """Numbers of jobs at once by key. `limits`: the most jobs by key template."""

    def __init__(self, limits: Mapping[str, int], running: Iterable[FullJobParams]) -> None:
        self._limits = limits
        self._taken: dict[str, int] = {}
        for params in running:
            self.take(params)

    def admit(self, params: FullJobParams) -> bool:
        keys = ((key_of(template, params), most) for template, most in self._limits.items())
        return all(key is None or self._taken.get(key, 0) < most for key, most in keys)

    def take(self, params: FullJobParams) -> None:
        for template in self._limits:
            key = key_of(template, params)
            if key is not None:
                self._taken[key] = self._taken.get(key, 0) + 1


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


def was_renewed(item: Waiting) -> bool:
    """Return whether people let the item be tried again."""
    return item.attempt > 1 and not item.tries


@dataclass
class Choice:
    """The jobs that a cycle has chosen so far, beside the jobs under way."""

    link: ManagerLink
    room: int = 0  # jobs that may start in the cycle
    is_limited: bool = False  # whether only items that people tried again may start: too many items have failed
    caps: Caps = field(default_factory=lambda: Caps({}, ()))
    chosen: list[tuple[Waiting, FullJobParams]] = field(default_factory=list)
    after: Waiting | None = None  # the last item on the last page: the author is asked once about each item

    @property
    def missing(self) -> int:
        return self.room - len(self.chosen)

    @cached_property
    def running(self) -> Sequence[Job]:
        """The jobs under way, from a single reading: the author may ask for them with each item."""
        return self.link.running()

    @property
    def spiders(self) -> list[str]:
        """The spiders of the jobs under way and of the chosen jobs."""
        return [job.request.crawler for job in self.running] + [params["spider"] for _, params in self.chosen]


def _place(rule: Breaker, params: FullJobParams) -> str | None:
    key = key_of(rule.key, params)
    return None if key is None else f"{rule.key} {key}"
