"""The chosen outcomes for a play, by members' paths, by patterns such as `sites/*`, or by crawlers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from crawler_lifecycle.base.names import did_you_mean
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import CrawlWork, ManagerWork, StepWork, Work
from crawler_lifecycle.model.flow_states import MemberKind
from crawler_lifecycle.testing.outcomes import Answer, CrawlOutcome, RefusedCrawl, Time, as_time, completed

Crawl = CrawlOutcome | RefusedCrawl
Failure = str | BaseException | None  # an outcome's word, or an exception
Value = TypeVar("Value")
COMPLETED = completed()


@dataclass(frozen=True)
class Scenario:
    """Chosen outcomes.

    `crawls`: crawls' ends; a list has an end per attempt, and the last end stays.
    `fails`: steps' failing attempts, as a number, or as a list with an outcome's word or an exception per attempt.
    `approvals`: True, False or an answer. An approval without an answer waits.
    `results`: values in place of calls.
    `takes`: the steps' virtual durations. `deaths`: deaths of the process after the function, before its end is kept.
    `calls`: whether functions are called.
    """

    crawls: Mapping[str, Crawl | Sequence[Crawl]] = field(default_factory=dict)
    fails: Mapping[str, int | Sequence[Failure]] = field(default_factory=dict)
    approvals: Mapping[str, bool | Answer] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    takes: Mapping[str, Time] = field(default_factory=dict)
    deaths: Mapping[str, int] = field(default_factory=dict)
    calls: bool = True

    def crawl(self, path: str, crawler: str, number: int) -> Crawl:
        """Return a crawl's end for an attempt; the first attempt has the number 0."""
        chosen = chosen_for(self.crawls, path, crawler)
        if chosen is None:
            return COMPLETED
        ends: list[Crawl] = [chosen] if isinstance(chosen, CrawlOutcome | RefusedCrawl) else list(chosen)
        if not ends:
            raise BadInput("crawls", f"the list for {path!r} is empty")
        return ends[min(number, len(ends) - 1)]

    def failure(self, path: str, number: int) -> tuple[bool, Failure]:
        """Return whether a step's attempt fails, and how; the first attempt has the number 0."""
        chosen = chosen_for(self.fails, path)
        if chosen is None:
            return False, None
        if isinstance(chosen, int):
            return number < chosen, None
        return number < len(chosen), chosen[number] if number < len(chosen) else None

    def answer(self, path: str) -> Answer | None:
        chosen = chosen_for(self.approvals, path)
        return Answer(chosen) if isinstance(chosen, bool) else chosen

    def duration(self, path: str) -> timedelta:
        return as_time("takes", chosen_for(self.takes, path) or 0)

    def check(self, works: Mapping[str, Work], growing: Iterable[str]) -> None:
        """Refuse a path without a member: a typing error would leave a chosen outcome unused.

        `growing`: paths for groups with members to come.
        """
        by_kind = {kind: {path: work for path, work in works.items() if work.kind == kind} for kind in MemberKind}
        steps = [path for path, work in works.items() if isinstance(work, StepWork | ManagerWork)]
        crawlers = {work.request.crawler for work in works.values() if isinstance(work, CrawlWork)}
        later = tuple(f"{path}/" for path in growing)
        self._check("crawls", self.crawls, {*by_kind[MemberKind.CRAWL], *crawlers}, later)
        self._check("approvals", self.approvals, by_kind[MemberKind.APPROVAL], later)
        for name in ("fails", "results", "takes", "deaths"):
            self._check(name, getattr(self, name), steps, later)

    def _check(self, name: str, chosen: Iterable[str], known: Iterable[str], later: tuple[str, ...]) -> None:
        known = list(known)
        for key in chosen:
            if key in known or key.startswith(later) or any(fnmatchcase(path, key) for path in known):
                continue
            raise BadInput(name, f"the flow has no {_KINDS[name]} {key!r}{did_you_mean(key, known)}")


NO_SCENARIO = Scenario()
_KINDS = dict.fromkeys(("fails", "results", "takes", "deaths"), "step") | {"crawls": "crawl", "approvals": "approval"}


def chosen_for(chosen: Mapping[str, Value], path: str, crawler: str = "", default: Any = None) -> Value | Any:
    """Return the choice for the path, else for the first fitting pattern, else for the crawler, else the default."""
    if path in chosen:
        return chosen[path]
    fitting = next((key for key in chosen if fnmatchcase(path, key)), crawler)
    return chosen.get(fitting, default)
