"""States for flows and members, with the words in the database and in messages."""

from enum import StrEnum


class Word(StrEnum):
    """A state as its word, also where a dict or a model with the state is printed."""

    def __repr__(self) -> str:
        return repr(self.value)


class MemberState(Word):
    SUSPENDED = "suspended"  # a dependency is not satisfied yet
    AVAILABLE = "available"  # the graph allows the start
    SCHEDULED = "scheduled"  # the dependencies are satisfied, and the member waits for its time
    EXECUTING = "executing"  # an attempt is under way
    RETRYABLE = "retryable"  # an attempt failed, and the next attempt waits for its pause
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # a person, a dependency or the member's own code cancelled the member
    DISCARDED = "discarded"  # the last allowed attempt failed

    @property
    def is_final(self) -> bool:
        """Whether the member changes only by a retry or a reopening."""
        return self in FINAL

    @property
    def is_unstarted(self) -> bool:
        """Whether the member waits for its start, or for its next attempt."""
        return self in UNSTARTED


FINAL = frozenset({MemberState.COMPLETED, MemberState.CANCELLED, MemberState.DISCARDED})
FAILED = frozenset({MemberState.CANCELLED, MemberState.DISCARDED})
UNSTARTED = frozenset({MemberState.SUSPENDED, MemberState.AVAILABLE, MemberState.SCHEDULED})


class FlowState(Word):
    EXECUTING = "executing"  # a member is open, or an attempt is not settled
    PAUSED = "paused"  # a person holds new starts back
    COMPLETED = "completed"  # all members are completed
    CANCELLED = "cancelled"  # members were cancelled, and none was discarded
    DISCARDED = "discarded"  # a member was discarded
    UNKNOWN = "unknown"  # no flow has the id

    @property
    def is_final(self) -> bool:
        """Whether the flow changes only by a retry, a reopening or further members."""
        return self in (FlowState.COMPLETED, FlowState.CANCELLED, FlowState.DISCARDED)


class FlowIntent(StrEnum):
    """People's wish for a flow."""

    RUN = "run"
    PAUSE = "pause"  # start no attempt until the flow is resumed
    DRAIN = "drain"  # start no attempt any more, let present attempts end, then cancel the open members


class GroupGrowth(StrEnum):
    """Source for members in a growing group."""

    GRAFT = "graft"  # a member attaches a sub-workflow
    TASKS = "tasks"  # every task in a crawl gets a member


class Ready(StrEnum):
    """Time for a crawl to count as completed for its dependents."""

    ENDED = "ended"  # the run has ended
    ARCHIVED = "archived"  # the archive with the run's files is ready, too
