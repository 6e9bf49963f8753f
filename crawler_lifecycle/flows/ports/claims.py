"""Port for hosts of steps: claims on attempts, inputs of functions, and ends with results."""

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
class ClaimedStep:
    """A step that the host has claimed."""

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
class Claimed:
    mine: Sequence[ClaimedStep] = ()
    held: Sequence[int] = ()  # members whose attempt another host still holds
    ended: Sequence[AttemptEnd] = ()  # attempts whose end is already recorded, by an earlier try
    stale: Sequence[int] = ()  # members that may not start, because a door was first, or a read end is missing
    has_lost: bool = False  # whether the database has lost its last writes: no attempt is new


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a claimed attempt, with the encoded result as JSON text."""

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


class StepClaims(Protocol):
    """The ledger for hosts of steps. A claim is a host's right to execute attempts, as long as its lease lasts."""

    def claim(
        self, flow: FlowRef, door: int, starts: Sequence[AttemptRef], token: str, host: str,
        code_version: str | None = None, reads: Mapping[int, int] = NO_READS,
    ) -> Claimed:  # fmt: skip
        """Record new attempts, and claim attempts that no host holds.

        A new attempt starts only if no door was first, people hold no starts back, and the attempts in `reads` have
        a stored end or a run. The epoch is compared only for new attempts. An attempt whose host has lost its lease
        after the function began counts one more death. Without a lease, a host gets a TemporaryError.

        Attempts with the token already, such as after a lost answer, are the host's. The claim of an attempt without
        deaths notes its function as begun, too. An isolated attempt, and an attempt with deaths, begin with `begin`.
        """

    def begin(self, flow_uid: str, start: AttemptRef, token: str) -> bool:
        """Note the function's beginning: a later loss of the claim counts as a death.

        Return False, and note nothing, if the token has lost the attempt.
        """

    def renew(self, token: str, lasts: timedelta) -> Mapping[AttemptKey, bool]:
        """Make or renew the host's lease. Return its attempts, and whether people ask the attempt to stop.

        A lease that was over covers the attempts that no other host has taken.
        """

    def end(self, ends: Sequence[StepEnd], token: str) -> Mapping[AttemptKey, AttemptEnd]:
        """Record ends and results in one transaction; return the ends as recorded. Flows may differ.

        An end whose claim is lost is left out: another host has the attempt. A recorded end stays. Without a
        lease, a claim is not lost as long as no other host has taken the attempt.
        """

    def release(self, token: str, attempts: Collection[AttemptKey] | None = None) -> None:
        """Give claims with the token back, without a death; default: all claims, because the host ends in order."""

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
