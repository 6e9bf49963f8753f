"""Plans: the next acts for a flow, as the planner hands them to a supervisor."""

from dataclasses import dataclass
from datetime import datetime

from crawler_lifecycle.flows.rules.rows import GroupRow, MemberRow
from crawler_lifecycle.model.flow_retrying import RetryRule
from crawler_lifecycle.model.flow_states import FlowState


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A row to write, if the stored row still has the state, the generation and the attempt of `was`."""

    was: MemberRow
    row: MemberRow


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """An attempt to start. `rule`: the retry rule with changes for this attempt."""

    number: int
    generation: int
    attempt: int
    rule: RetryRule | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The next acts. No part takes effect after a door that the planner does not know.

    A write or a start that a door has outdated is refused, and the supervisor gives the planner the stored rows.
    Otherwise a member could start because of an end that the door did not allow.
    """

    changes: tuple[MemberChange, ...] = ()
    groups: tuple[GroupRow, ...] = ()  # groups with further members, for a crawl's tasks
    starts: tuple[AttemptStart, ...] = ()
    stops: tuple[int, ...] = ()  # members with an attempt to stop
    flow_state: FlowState | None = None  # the flow's new state
    wake_at: datetime | None = None  # time to plan again, without an earlier observation

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.groups or self.starts or self.stops or self.flow_state)
