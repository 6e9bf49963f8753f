"""States as filters: the service's own words, and Chancy's."""

from collections.abc import Iterable
from dataclasses import dataclass

from crawler_lifecycle.contract.flows.answers import FlowSummary
from crawler_lifecycle.contract.flows.states import FlowState
from crawler_lifecycle.domain.flows.states import WorkflowState, workflow_state
from crawler_lifecycle.errors import BadInput

ALL_WORDS = tuple(dict.fromkeys([*map(str, FlowState), *map(str, WorkflowState)]))


@dataclass(frozen=True)
class Wanted:
    """Flows with a state among the words."""

    words: frozenset[str]

    @classmethod
    def by_words(cls, words: Iterable[str]) -> "Wanted":
        wanted = frozenset(str(word) for word in words)
        for word in sorted(wanted):
            if word not in ALL_WORDS:
                raise BadInput("states", f"expected some of {', '.join(ALL_WORDS)}, not {word!r}")
        return cls(wanted)

    @property
    def states(self) -> list[FlowState]:
        """States with all flows for the words, for a query."""
        return [state for state in FlowState if any(self._fits(state, has_started) for has_started in (True, False))]

    def fit(self, flow: FlowSummary) -> bool:
        return self._fits(flow.state, flow.started_at is not None)

    def _fits(self, state: FlowState, has_started: bool) -> bool:
        return not self.words.isdisjoint({state.value, workflow_state(state, has_started=has_started).value})
