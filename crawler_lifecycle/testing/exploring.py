"""Play a workflow with all combined outcomes, as far as a limit allows."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from crawler_lifecycle.flows.authors.running import Cancel
from crawler_lifecycle.flows.authors.workflow import Workflow
from crawler_lifecycle.model.flow_states import FlowState, MemberKind
from crawler_lifecycle.testing.inline import Result
from crawler_lifecycle.testing.outcomes import CrawlOutcome, failed, stopped
from crawler_lifecycle.testing.play import Play
from crawler_lifecycle.testing.scenario import Scenario

MOST_PLAYS = 1_000


class Outcome(StrEnum):
    """A member's outcome, if not a success."""

    DISCARDED = "discarded"
    CANCELLED = "cancelled"


Outcomes = Mapping[str, Outcome]  # by path; all further members succeed
Check = Callable[[Result], object]


@dataclass(frozen=True)
class Explored:
    """Figures about an exploration."""

    plays: int
    left_out: int  # known further plays, which may lead to more
    most_failures: int  # up to this many failures together, all combinations were played
    ends: Mapping[FlowState, int] = field(default_factory=dict)  # plays by the flow's end

    @property
    def is_complete(self) -> bool:
        return not self.left_out

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {state}" for state, count in self.ends.items())
        if self.is_complete:
            return f"all {self.plays} plays: {ends}"
        return (
            f"{self.plays} plays: {ends}; at least {self.left_out} plays are left out: "
            f"all combinations of up to {self.most_failures} failures were played"
        )


class Surprise(AssertionError):
    """A play with an end that the check refuses, or without an end. `outcomes` has the play's failures."""

    def __init__(self, outcomes: Outcomes, problem: object) -> None:
        chosen = ", ".join(f"{path} {outcome}" for path, outcome in outcomes.items()) or "all members succeed"
        super().__init__(f"{chosen}: {problem}")
        self.outcomes = dict(outcomes)


def explore(
    workflow: Workflow,
    check: Check | None = None,
    *,
    outcomes: Sequence[Outcome] = tuple(Outcome),
    calls: bool = False,
    crawls: Mapping[str, CrawlOutcome] | None = None,
    results: Mapping[str, Any] | None = None,
    most_plays: int = MOST_PLAYS,
) -> Explored:
    """Play the workflow with all combined successes and failures, few failures first, and check every end.

    Only started members have an outcome, so no two plays are equal. A flow without an end is a surprise. Without
    `calls`, functions are not called, and a grafter attaches no members. `crawls` and `results`: successes, as for
    `run_inline`.
    """
    return _Exploration(
        workflow, check, tuple(outcomes), calls, dict(crawls or {}), dict(results or {}), most_plays
    ).explored()


@dataclass
class _Exploration:
    workflow: Workflow
    check: Check | None
    outcomes: tuple[Outcome, ...]
    calls: bool
    crawls: dict[str, CrawlOutcome]
    results: dict[str, Any]
    most_plays: int
    ends: dict[FlowState, int] = field(default_factory=dict)

    def explored(self) -> Explored:
        waiting: deque[dict[str, Outcome]] = deque([{}])
        known = {frozenset[tuple[str, Outcome]]()}
        plays = 0
        while waiting and plays < self.most_plays:
            chosen = waiting.popleft()
            play = self._played(chosen)
            if not plays:
                play.check_scenario(Scenario(crawls=self.crawls, results=self.results))
            plays += 1
            for further in self._further(play, chosen):
                key = frozenset(further.items())
                if key not in known:
                    known.add(key)
                    waiting.append(further)
        whole = len(waiting[0]) - 1 if waiting else max(len(chosen) for chosen in known)
        return Explored(plays, len(waiting), whole, self.ends)

    def _played(self, chosen: Outcomes) -> Play:
        play = Play(self.workflow, self._scenario(chosen))
        play.run()
        result = Result(play)
        if not result.state.is_final:
            raise Surprise(chosen, f"the flow stands still, and waits for {', '.join(result.open)}")
        self.ends[result.state] = self.ends.get(result.state, 0) + 1
        if self.check is not None:
            try:
                self.check(result)
            except AssertionError as error:
                raise Surprise(chosen, error or "the check failed") from error
        return play

    def _scenario(self, chosen: Outcomes) -> Scenario:
        always = 1_000_000  # more attempts than a member may have
        discarded = {path: outcome is Outcome.DISCARDED for path, outcome in chosen.items()}
        return Scenario(
            crawls={**self.crawls, **{path: failed() if failure else stopped() for path, failure in discarded.items()}},
            fails={path: always for path, is_discarded in discarded.items() if is_discarded},
            approvals={**dict.fromkeys(chosen, False), "*": True},
            results={
                **self.results,
                **{path: Cancel() for path, is_discarded in discarded.items() if not is_discarded},
            },
            calls=self.calls,
        )

    def _further(self, play: Play, chosen: Outcomes) -> Iterator[dict[str, Outcome]]:
        """Yield the outcomes with a further failure, in a member with a start after all chosen failures.

        A failure in an earlier member would prevent a chosen failure, or comes in another play.
        """
        started = list(dict.fromkeys(play.choices))
        first = max((started.index(path) + 1 for path in chosen), default=0)
        for path in started[first:]:
            is_approval = play.row(path).kind is MemberKind.APPROVAL
            for outcome in (Outcome.CANCELLED,) if is_approval else self.outcomes:
                yield {**chosen, path: outcome}
