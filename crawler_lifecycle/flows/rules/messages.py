"""Messages between a flow's supervisor, its activities and the hosts of steps. The messages carry the rules' rows.

Rows cross Temporal packed: ten thousand members are some 100 KB.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Base64UrlBytes, BeforeValidator, Field, PlainSerializer, TypeAdapter

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.rules.ends import AttemptBegun, AttemptEnd, RunSeen, TasksSeen
from crawler_lifecycle.flows.rules.rows import FlowRow, GroupRow, MemberRow
from crawler_lifecycle.model.flow_states import FlowState

ALL_ROWS = -1  # a door number before the first door
FAST = 1  # level of compression


class FlowOccurrence(Message):
    """Input for a scheduled flow's workflow. `definition`: the schedule's, without an occurrence's own id."""

    schedule_id: str
    definition: FlowDefinition
    requested_by: str | None = None


class PushOccurrence(Message):
    """Push an occurrence's flow, unless a flow has the id. The result has the flow's present state."""

    definition: FlowDefinition
    requested_by: str | None = None


class FlowRef(Message):
    """A flow and its supervisor's epoch. A write with an older epoch than the flow's row is refused.

    The supervisor's writes and starts of crawls are acts, one at a time. An act raises the version, and on a database
    with a lower version, acts are refused.
    """

    uid: str
    epoch: int
    version: int = Field(default=0, description="number of the last act known to be stored")


class FlowInput(Message):
    """Input for an activity about a flow. Inputs with further fields extend the class."""

    flow: FlowRef


class BeginFlow(Message):
    """Make the execution the flow's supervisor."""

    flow_uid: str
    workflow_id: str
    temporal_run_id: str
    began_at: datetime


@dataclass(frozen=True, slots=True)
class _Rows:
    members: list[MemberRow]
    groups: list[GroupRow]


_ROWS = TypeAdapter(_Rows)


class PackedRows(Message):
    """Members and groups as compressed JSON."""

    packed: Base64UrlBytes

    @classmethod
    def from_rows(cls, members: Sequence[MemberRow] = (), groups: Sequence[GroupRow] = ()) -> "PackedRows":
        content = zlib.compress(_ROWS.dump_json(_Rows(list(members), list(groups))), FAST)
        return cls.model_construct(packed=content)

    def unpacked(self) -> tuple[list[MemberRow], list[GroupRow]]:
        rows = _ROWS.validate_json(zlib.decompress(self.packed))
        return rows.members, rows.groups


NO_ROWS = PackedRows.from_rows()


class _Packing:
    """Compressed JSON for a field with many small items. Ten thousand ends of runs would exceed Temporal's payloads."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def pack(self, items: Any) -> str:
        return b64encode(zlib.compress(self._adapter.dump_json(items), FAST)).decode() if items else ""

    def unpack(self, value: Any) -> Any:
        """Return the items; anything but text is checked by the field's type."""
        if not isinstance(value, str):
            return value
        return self._adapter.validate_json(zlib.decompress(b64decode(value))) if value else ()


_BEGINS, _ENDS, _RUNS, _TASKS = (
    _Packing(tuple[kind, ...])  # type: ignore[valid-type]
    for kind in (AttemptBegun, AttemptEnd, RunSeen, TasksSeen)
)
Begins = Annotated[tuple[AttemptBegun, ...], PlainSerializer(_BEGINS.pack), BeforeValidator(_BEGINS.unpack)]
Ends = Annotated[tuple[AttemptEnd, ...], PlainSerializer(_ENDS.pack), BeforeValidator(_ENDS.unpack)]
Runs = Annotated[tuple[RunSeen, ...], PlainSerializer(_RUNS.pack), BeforeValidator(_RUNS.unpack)]
Tasks = Annotated[tuple[TasksSeen, ...], PlainSerializer(_TASKS.pack), BeforeValidator(_TASKS.unpack)]


class ReadFlow(FlowInput):
    """Read the rows that doors have changed, and look at attempts under way."""

    since: int = Field(default=ALL_ROWS, description="number of the last door whose rows the supervisor knows")
    after_member: int = Field(default=-1, description="number of the last member on the previous page")
    members: str = Field(default="", description="ranges: members whose rows are read whatever door changed them last")
    tasks_of: str = Field(default="", description="ranges: crawls whose single tasks others depend on")


class LedgerPage(Message):
    """Result for a reading. `rows` has the rows as stored, by number.

    Each page is read in one snapshot. If a page has another door than the page before, the reading starts anew.
    """

    door: int = Field(description="number of the last door before the reading")
    removal: int = Field(
        default=0, description="number of the last door that removed rows; a planner from before is built anew"
    )
    version: int = Field(default=0, description="number of the last act by a supervisor before the reading")
    row: FlowRow
    rows: PackedRows = NO_ROWS
    has_more: bool = Field(default=False, description="whether a further page has the members after the last one")
    begins: Begins = Field(default=(), description="begins of steps that their member's row does not know yet")
    ends: Ends = Field(default=(), description="stored ends that their member's row does not know yet")
    runs: Runs = Field(
        default=(),
        description="runs with news for their member's row, also after the member's end, and runs of `tasks_of`",
    )
    tasks: Tasks = ()


class FlowBegun(Message):
    """Result for a beginning."""

    flow: FlowRef
    page: LedgerPage = Field(description="first page of all rows")
    search_attributes: bool = Field(default=False, description="whether the server has our search attributes")
    receivers_are_files: bool = Field(default=False, description="whether all notices and events go to files")


class AttemptRef(Message):
    """An attempt that the planner starts."""

    number: int
    generation: int
    attempt: int


class WriteFlow(FlowInput):
    """Write the planner's rows, and the begins of steps that the planner does not know, if no door was first."""

    door: int
    rows: PackedRows = NO_ROWS
    ended: str = Field(default="", description="attempts by member whose ends the rows tell, as ranges")
    state: FlowState | None = Field(default=None, description="the flow's new state")


class Written(Message):
    """Result for a writing. `stale`: nothing is written, and the supervisor has to read.

    A door was first, or the database has lost writes that the supervisor knows.
    """

    stale: bool = False
    has_lost: bool = Field(default=False, description="whether the database has lost what the supervisor knows")
    version: int = Field(default=0, description="number of the act; 0: nothing is written")
    begins: Begins = Field(default=(), description="begins that are written although the planner did not know them")


class StartCrawls(FlowInput):
    """Record attempts of crawls, and start their runs."""

    door: int
    starts: tuple[AttemptRef, ...]
    reads: str = Field(default="", description="as for `RunSteps.reads`")


class CrawlsStarted(Message):
    """Result for starts of crawls."""

    stale: str = Field(default="", description="ranges: members that did not start, as for `Written.stale`")
    ends: tuple[AttemptEnd, ...] = Field(default=(), description="attempts that the catalogue refused for good")
    version: int = Field(default=0, description="number of the act, as for `CrawlStarts.version`")
    has_lost: bool = Field(
        default=False, description="whether the database has lost its last writes: no attempt is new"
    )


class CheckStarts(FlowInput):
    """Look at the workflows for crawls without a run."""

    before: datetime = Field(description="attempts from before this time")


class StartsChecked(Message):
    """Result for a check: attempts whose workflow failed before it made a run, and attempts without a workflow."""

    ends: tuple[AttemptEnd, ...] = ()
    missing: str = Field(default="", description="ranges: members whose attempt has no workflow yet")


class CancelFlow(FlowInput):
    """Cancel all members, because a person has cancelled the flow's workflow with Temporal's tools."""

    flow_id: str


class StopAttempts(FlowInput):
    """Ask attempts to end: crawls by their runs' stops, with those of managers."""

    flow_id: str
    members: str = Field(description="ranges")


class GrowGroup(FlowInput):
    """Add the members for a crawl's tasks."""

    group: int
    expected: int


class FollowingStep(Message):
    """A step for the host to start on its own as soon as the steps in `after` have completed, if no door was first."""

    start: AttemptRef
    route: str
    after: tuple[int, ...] = Field(description="members in the same activity")
    is_awaited: bool = Field(
        default=False, description="whether the host answers at the end, because the supervisor waits for the end"
    )


class RunSteps(FlowInput):
    """Begin the attempts, call the functions, and store the ends."""

    door: int
    flow_id: str
    route: str = Field(description="route of all members in `starts`: queue, module and function")
    starts: tuple[AttemptRef, ...]
    followers: tuple[FollowingStep, ...] = ()
    reads: str = Field(
        default="",
        description="attempts by member whose results the steps read, as ranges; without one of them on record, the "
        "database has lost its last writes, and no step starts",
    )


class StepsEnded(Message):
    """Result for steps. The ends are already stored.

    A host may answer before all attempts have ended, so that a slow step holds up no dependents of the other steps. The
    supervisor then asks for each attempt that is in neither list with an activity of its own.
    """

    ends: tuple[AttemptEnd, ...] = ()
    stale: str = Field(default="", description="ranges: members that did not start, because a door was first")
    followed: str = Field(default="", description="ranges: started followers, with an end or without")
    has_lost: bool = Field(
        default=False, description="whether the database has lost its last writes: no attempt is new"
    )
    has_news: bool = Field(default=False, description="whether a step has changed the flow, such as by a graft")
    seconds: float = Field(default=0, description="time in the functions of `starts`: slow steps come one by one")
