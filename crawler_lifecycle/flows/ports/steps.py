"""Port for steps' hosts: begins, inputs for functions, and ends with results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from pydantic import JsonValue

from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.rules.contexts import Source
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, FlowRef
from crawler_lifecycle.model.flow_states import EndKind

AttemptKey = tuple[str, int, int]  # flow's uid, member's number, attempt's number
NO_READS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class BegunStep:
    """A step after its begin."""

    start: AttemptRef
    path: str
    definition: MemberDefinition
    arguments: JsonValue  # encoded; of the definition, or of the last retry
    flow_id: str
    flow_name: str | None
    flow_uid: str
    is_grafter: bool
    deaths: int  # processes that died with the attempt
    scheduled_at: datetime | None = field(default=None, compare=False)  # time from which it may start, or has started
    errors: Sequence[Mapping[str, Any]] = ()  # earlier attempts' errors, oldest first: attempt, at, error
    reads: Mapping[int, int] = field(default_factory=dict)  # attempts with the results for the activity, by member


@dataclass(frozen=True, slots=True)
class StepsBegun:
    mine: Sequence[BegunStep] = ()
    apart: Sequence[int] = ()  # members for processes apart, which begin when their process is ready
    held: Sequence[int] = ()  # members whose attempt a host has begun
    ended: Sequence[AttemptEnd] = ()  # attempts whose end is already stored
    stale: Sequence[int] = ()  # members that may not start, because a door was first, or a read end is missing
    has_lost: bool = False  # whether the database has lost its last writes: no attempt is new


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a begun attempt, with the encoded result as JSON text."""

    flow_uid: str
    start: AttemptRef
    kind: EndKind
    at: datetime
    reason: str | None = None
    outcome: str | None = None
    error: str | None = None  # traceback
    result: str | None = None


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The sources for a step's context: values of the groups around it, and members with results by name."""

    context: Mapping[str, JsonValue]  # encoded
    sources: Mapping[str, Source]


class StepLedger(Protocol):
    """The ledger for steps' hosts. A host has its begun attempts as long as its lease lasts."""

    def begin(
        self, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str,
        code_version: str | None = None, reads: Mapping[int, int] = NO_READS, *, in_process: bool = False,
    ) -> StepsBegun:  # fmt: skip
        """Insert begins. The host calls the first function next, and the others as slots are free: of them, the first
        death counts for nothing, because they may not have been called.

        A new attempt begins only if no door was first, people hold no starts back, and the attempts in `reads` have
        a stored end or a run. The epoch is compared only for new attempts. An attempt whose host has lost its lease
        begins again. Without a lease, a host gets a TemporaryError.

        Attempts with the token already, such as after a lost answer, are the host's. Isolated steps, and attempts
        with an earlier begin, are only named in `apart`. `in_process`: their process is ready. An attempt that people
        have stopped gets its end instead of a begin; a manager begins, and stops its crawls.
        """

    def withdraw(self, token: str, attempts: Collection[AttemptKey], *, are_deaths: bool = False) -> None:
        """Delete the token's begins without an end: another host begins the attempts as if for the first time.

        `are_deaths`: the functions were called, so the begins only lose their token, and count as deaths.
        """

    def renew(self, token: str, lasts: timedelta, held: Collection[AttemptKey] = ()) -> Mapping[AttemptKey, bool]:
        """Make or renew the host's lease. Return the attempts still with the host, and whether to stop them.

        A lease that was over covers the attempts without another host's begin.
        """

    def end(self, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        """Insert ends with their results in one transaction; return the stored ends. Flows may differ.

        The end is left out if another host has begun the attempt since. The first end stays.
        """

    def inputs(self, flow_uid: str, number: int) -> StepInputs: ...

    def results(
        self, flow_uid: str, numbers: Collection[int], reads: Mapping[int, int] = NO_READS
    ) -> Mapping[int, JsonValue]:
        """Return encoded results for the first of the numbers, as many as fit into a page; None without a result.

        The first number is always among them. A member in `reads` has this attempt's result, whatever its row
        says, and NotFound if the attempt has no stored end and no run.
        """

    def source(self, flow_uid: str, path: str) -> Source | None:
        """Return the source for a member's result, or for a group's results; None without such a path."""

    def note_cause(self, flow_uid: str, numbers: Collection[int], cause: str) -> None:
        """Write why unstarted members wait, such as for a host that knows their function."""
