"""Managers and their items for people."""

from datetime import datetime

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.model.manager_items import CodeProblem, ItemState, Origin, Override

MOST_LINES = 200  # last lines in a manager's output
LONGEST_LINE = 1000  # characters


class ItemRecord(Message):
    """An item with its last attempt."""

    number: int
    state: ItemState
    origin: Origin
    is_delayed: bool = Field(default=False, description="whether the manager's object holds the item back")
    due: datetime | None = Field(default=None, description="end of the pause before the next attempt")
    crawler: str | None = None
    override: Override
    arguments: dict[str, str] | None = Field(
        default=None,
        description="the crawl's arguments, those of the manager's command line included; null: refused parameters",
    )
    tags: tuple[str, ...] = Field(default=(), description="the last request's tags")
    labels: tuple[str, ...] = Field(default=(), description="the last request's labels, without the crawler's labels")
    generation: int
    attempt: int
    tries: int
    problem: str | None = Field(default=None, description="why the item is refused")
    is_filtered: bool = Field(default=False, description="whether the manager's own filter has refused the item")
    outcome: str | None = Field(default=None, description="outcome word of the last attempt's end")
    run_id: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def awaits_reaction(self) -> bool:
        """Whether the crawl has ended, without a reaction by the manager."""
        return self.state is ItemState.RUNNING and self.ended_at is not None


class ItemAttempt(Message):
    """An item's attempt."""

    number: int = Field(description="number of the item")
    attempt: int
    generation: int = Field(description="raised by each retry that people ask for")
    crawler: str
    run_id: int | None = None
    outcome: str | None = Field(default=None, description="outcome word of the end")
    is_failed: bool | None = Field(
        default=None, description="the manager's judgement; null while the manager has not reacted to the end"
    )
    started_at: datetime
    ended_at: datetime | None = None
    changed: dict[str, str | None] = Field(
        default={}, description="arguments with other values than in the attempt before; null: without the argument"
    )


class OutputLine(Message):
    """A printed or logged line by a manager's object."""

    at: datetime
    text: str


class ManagerProblem(CodeProblem):
    """Failed author's code, for people. Documents of doors have another model with the short name."""


class ManagerStatus(Message):
    """A crawl manager in a flow, with its items' numbers and its sums."""

    path: str = Field(description="the manager's path in its flow")
    function: str = Field(description="the manager's class, as `module:Class`")
    arguments: tuple[str, ...] = Field(default=(), description="command line")
    counts: Counts = Counts()
    stats: dict[str, int | float | str] = Field(default={}, description="sums by name, and texts")
    tags: tuple[str, ...] = Field(default=(), description="tags for all further crawls")
    incarnation: int = Field(default=0, description="the present object's number; 0: no host has begun the manager")
    read: int = Field(default=0, description="parameter sets taken from the generator, repeats included")
    is_exhausted: bool = Field(default=False, description="whether the generator has ended")
    close_reason: str | None = None
    failures: int = Field(default=0, description="failed items, and refused ones unless the close is `finished`")
    problem: ManagerProblem | None = Field(default=None, description="failure that paused the manager, until a resume")
    held: dict[str, datetime] = Field(default={}, description="ends of pauses by breakers, by key")
    next_attempt_at: datetime | None = Field(
        default=None, description="end of the first pause before an item's next attempt"
    )
    first_began_at: datetime | None = None
    closed_at: datetime | None = Field(default=None, description="time of the close; None since people have retried it")

    @property
    def has_begun(self) -> bool:
        return self.incarnation > 0


class ItemSums(Message):
    """Items' numbers for all managers in a flow, in lists."""

    total: int
    completed: int
    failed: int
    cancelled: int
    refused: int
    repeated: int = Field(description="repeated parameter sets, without an item")
    failures: int = Field(description="failed items, and refused items of managers that did not close as `finished`")
    has_problem: bool = Field(description="whether a failure pauses a manager")
    is_exhausted: bool = Field(description="whether all generators are read to their ends, so that `total` is final")

    @property
    def open(self) -> int:
        """Waiting and running items."""
        return self.total - self.completed - self.failed - self.cancelled - self.refused
