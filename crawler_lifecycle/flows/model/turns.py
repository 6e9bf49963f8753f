"""Messages between a manager's object and its ledger, in the order of a manager's life."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import A_YEAR
from crawler_lifecycle.model.crawl_results import LONGEST_OUTCOME
from crawler_lifecycle.model.manager_items import Item, Override, Verdict
from crawler_lifecycle.model.requests import RunParameters

GENERATOR_CHANGED = "generator_changed"  # phase of a problem: people decide whether the new sets are right
OURS = "crawler_lifecycle"  # key in the stored `self.state` for our own values, by subject
BREAKERS, HELD = "breakers", "held"  # subject; its pauses: ends and keys
LARGEST_STATE = 1_000_000  # bytes of `self.state` as JSON
FILTERED = "crawlmanager/filtered"  # stat: items refused by the manager's own filter
UNREADABLE = "parameters that are no JSON"  # only key in an override with unrecordable parameters
FILTERED_PROBLEM = "the manager's filter, from create_dupe_filter, has the parameters"  # such an item's problem
SCHEDULED = "crawlmanager/scheduled_jobs"  # stat: recorded attempts, counted by the ledger


class Begun(Message):
    """The stored manager, for a new object."""

    flow_uid: str
    flow_id: str
    name: str
    family: str | None = Field(default=None, description="the value in the tag FLOW_ID")
    arguments: tuple[str, ...] = Field(default=(), description="command line")
    incarnation: int = Field(description="number of the object; from the second on, the manager is resumed")
    first_began_at: datetime
    tags: tuple[str, ...] = Field(default=(), description="the flow's tags, which all further crawls get")
    state: dict[str, JsonValue] = {}
    setbacks: dict[str, JsonValue] = Field(default={}, description="a host's counts of failures in author's code")
    cursor: JsonValue = None
    read: int = Field(default=0, description="parameter sets taken from the generator so far, repeats included")
    digest: str | None = Field(default=None, description="digest of the parameter sets, to recognize another generator")
    is_exhausted: bool = False
    close_reason: str | None = None
    is_closed: bool = Field(default=False, description="whether the end is stored: only the step has to end")
    stats: dict[str, int | float | str] = {}
    items_door: int = Field(
        default=0, description="number of the last door that added or renewed items, or ended a drain"
    )


class Effects(Message):
    """Requests by author's code in a hook or a turn. All are stored, or none."""

    add: tuple[Item, ...] = ()
    tags: tuple[str, ...] = ()
    removed_tags: tuple[str, ...] = Field(default=(), description="the tags for further crawls go without these tags")
    stats: dict[str, float] = Field(default={}, description="increments by name")
    job_tags: dict[str, list[str]] = Field(default={}, description="all tags of jobs with changed tags, by key")
    texts: dict[str, str] = Field(default={}, description="stats that are texts, by name")
    state: dict[str, JsonValue] | None = Field(default=None, description="the whole new state; None: no change")
    close_reason: str | None = None
    lines: tuple[str, ...] = Field(default=(), description="lines for the flow's timeline")


NO_EFFECTS = Effects()


class Retry(Message):
    """The next attempt for an item, with its changed parameters."""

    override: Override
    request: RunParameters
    delay_seconds: float = Field(default=0, le=A_YEAR, allow_inf_nan=False)


class Reaction(Message):
    """The hook's end for an ended attempt. A repeated reaction has no effect."""

    number: int
    attempt: int
    ended_at: datetime | None = Field(description="time of the end: a run that was reopened ends anew")
    verdict: Verdict
    outcome: str | None = Field(default=None, max_length=LONGEST_OUTCOME, description="author's own word for the end")
    retry: Retry | None = None
    effects: Effects = NO_EFFECTS


class Page(Message):
    """Parameter sets from the generator, in their order, with the generator's position after them."""

    items: tuple[Item, ...] = ()
    read: int
    cursor: JsonValue = None
    digest: str | None = Field(default=None, description="digest of all parameter sets so far")
    is_exhausted: bool = False
    is_reread: bool = Field(
        default=False,
        description="the parameter sets were read before: a known key is no repeat, and an unknown key is a new item",
    )
    effects: Effects = NO_EFFECTS


class Offered(Message):
    """Answer to a page: an item's number, or None for a repeat, in the page's order."""

    numbers: tuple[int | None, ...] = ()


class Start(Message):
    """A chosen item, with the request for its run. The generation was read with the item."""

    number: int
    attempt: int
    generation: int = 1
    request: RunParameters


class Counts(Message):
    """Numbers of a manager's items."""

    waiting: int = Field(default=0, description="items that may start, without delayed items")
    delayed: int = 0
    retrying: int = Field(default=0, description="items whose next attempt waits for its time")
    running: int = Field(default=0, description="attempts under way, or with an end without a reaction")
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    repeated: int = Field(default=0, description="parameter sets that were repeats, and are no items")


class ManagerIntent(StrEnum):
    """People's intent for a manager."""

    RUN = "run"
    PAUSE = "pause"  # start no crawl until the flow is resumed; hooks continue
    DRAIN = "drain"  # start no crawl any more; close when no crawl is under way
    STOP = "stop"  # as a drain; the crawls under way are asked to stop
    LEAVE = "leave"  # close at once; the crawls under way continue without the manager


class Wake(Message):
    """Answer to a wait: why the object continues."""

    intent: ManagerIntent = ManagerIntent.RUN
    has_ends: bool = False
    has_items: bool = Field(default=False, description="whether an item was added, or its pause is over")
    is_due: bool = Field(default=False, description="whether the time of the wait is over")
    must_leave: bool = Field(default=False, description="another process continues the manager: end at once")
