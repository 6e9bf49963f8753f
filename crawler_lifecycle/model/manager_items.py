"""Items and jobs: a manager's parameter sets, and the attempts to crawl them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.requests import RunParameters

LONGEST_KEY = 64  # characters in a key for repeats
Override = dict[str, JsonValue]  # a crawl's parameters as the author wrote them


class Origin(StrEnum):
    """Source for an item, in the order of the choice after delayed items."""

    ADDED = "added"  # by `add_job`, or by a person
    GENERATOR = "generator"


class ItemState(StrEnum):
    """An item's state.

    - `waiting`: the next attempt may start, at once or after a pause
    - `running`: an attempt is under way, or the manager has not reacted to its end
    - `completed`: the last attempt ended well
    - `failed`: the last attempt ended badly, and none follows
    - `cancelled`: by people, or by the manager's end
    - `refused`: the parameters can never become a run
    """

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"


class Item(Message):
    """A parameter set for the ledger. An item with a problem is stored as refused, and never starts."""

    override: Override
    request: RunParameters | None = Field(default=None, description="None: the item is refused")
    key: Annotated[str, Field(max_length=LONGEST_KEY)] | None = Field(
        default=None, description="a second item with the key is a repeat; None: the item is never a repeat"
    )
    origin: Origin = Origin.GENERATOR
    problem: str | None = Field(default=None, description="why the item is refused")
    is_filtered: bool = Field(default=False, description="whether the manager's own filter has refused the item")


class Waiting(Message):
    """A recorded item that may start."""

    number: int = Field(description="number of the item, from 1: the value in the tag JOBSEQ")
    attempt: int = Field(description="number of the attempt that would start")
    key: str | None = Field(default=None, description="by which repeats, or starts by the author, are known")
    generation: int = Field(default=1, description="raised by each retry that people ask for")
    tries: int = Field(default=0, description="previous attempts in the present generation")
    origin: Origin
    override: Override
    request: RunParameters
    is_delayed: bool = Field(default=False, description="whether the manager's object has delayed the item before")


class JobState(StrEnum):
    RUNNING = "running"  # an attempt is recorded, and its end is not
    FINISHED = "finished"


class Job(Message):
    """An item's attempt for the manager's object. `key` is the id of the attempt's workflow, and never changes."""

    key: str
    number: int
    attempt: int
    tries: int = Field(default=1, description="attempts in the present generation, this attempt included")
    override: Override
    request: RunParameters = Field(description="the request for the attempt's run, with all tags")
    state: JobState
    outcome: str | None = Field(default=None, description="outcome word of the end")
    is_failed: bool = Field(default=False, description="whether the run has ended as FAILED, whatever its word")
    has_reaction: bool = Field(default=False, description="whether the manager has reacted to the end")
    stats: dict[str, float] = {}
    result: JsonValue = None
    run_id: int | None = None
    run_uid: str | None = None
    started_at: datetime | None = None
    running_at: datetime | None = Field(default=None, description="start of the run's main job")
    ended_at: datetime | None = None


class JobFilter(Message):
    """Choice among the installation's runs, newest first. An empty value chooses every run."""

    states: tuple[JobState, ...] = ()
    keys: tuple[str, ...] = ()
    spider: str | None = None
    tags: tuple[str, ...] = Field(default=(), description="runs have all these tags")
    labels: tuple[str, ...] = Field(default=(), description="runs have all these labels")
    before: int | None = Field(default=None, description="the previous page's last RunID")
    limit: int


class Verdict(StrEnum):
    """A manager's judgement about an end."""

    OK = "ok"
    BAD = "bad"


class CodeProblem(Message):
    """Failed author's code. The manager is paused until people resume the flow."""

    phase: str = Field(description="hook or method that failed")
    job: str | None = Field(default=None, description="key of the job in question")
    error: str = Field(description="traceback, or the end of the process")
    failures: int = Field(default=1, description="failures without progress")
