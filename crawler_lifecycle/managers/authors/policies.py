"""Policies: an author's rules as data, for retries, for failing spiders or sites, and for jobs at once.

A key template is a text with fields, such as `{spider}` or `site:{site}`: the fields are the spider and its arguments.
A job without all fields has no key, and the rule does not hold for the job.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobParams

ANY_OUTCOME = "*"  # in a retry policy: every outcome without a rule of its own


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
