"""Models for the limits and pauses of scopes: caps on open runs and on tasks, and weights.

A scope is the installation, a crawler, or a label such as `site:example.com`. The scope's text is its key everywhere:
`installation`, `crawler:books`, `label:site:example.com`.
"""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.requests import Label, Name

INSTALLATION = "installation"
CRAWLER, LABEL = "crawler:", "label:"  # a scope's text begins so, and the name follows
LONGEST_SCOPE = 140
LEAST_TASKS = 2  # a main job and a child task; a lower cap would keep a run with child tasks waiting forever
MOST = 1_000_000
VALUES = ("runs", "tasks", "weight")


def scope(*, crawler: str | None = None, label: str | None = None) -> str:
    """Return the scope's text. Without crawler and label, the scope is the installation."""
    if crawler is not None and label is not None:
        raise BadInput("label", "not together with a crawler: a limit is for the one or the other")
    if crawler is not None:
        return CRAWLER + crawler
    return INSTALLATION if label is None else LABEL + label


def in_words(scope_text: str) -> str:
    """Return the scope as a noun in a sentence: `the installation`, `crawler books`, `label site:example.com`."""
    return "the installation" if scope_text == INSTALLATION else scope_text.replace(":", " ", 1)


class ScopeName(Request):
    """Scope for a limit or a pause: a crawler, a label, or the installation if neither is given."""

    crawler: Name | None = Field(default=None, description="only runs of this crawler")
    label: Label | None = Field(default=None, description="only runs with this label")

    @property
    def scope(self) -> str:
        return scope(crawler=self.crawler, label=self.label)


class ChosenScope(ScopeName):
    """Scope for a change. Unknown names are refused, since a misspelt name would change nothing unnoticed."""

    allow_unknown: bool = Field(
        default=False,
        description="accept a crawler or label that neither a run, the catalogue nor a limit has, for its first run",
    )


Cap = Annotated[int, Field(ge=1, le=MOST)]
TaskCap = Annotated[int, Field(ge=LEAST_TASKS, le=MOST)]


class LimitChange(ChosenScope):
    """New values for a scope's limits. A value stays unless the request names the value; null takes a value away."""

    runs: Cap | None = Field(default=None, description="maximum number of concurrent runs")
    tasks: TaskCap | None = Field(default=None, description="most tasks in the cluster, with main tasks")
    weight: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="share of the cluster in comparison with the other labels' weights; only for a label"
    )

    @property
    def values(self) -> dict[str, int | None]:
        """The values named by the request. BadInput without a value, and for a weight without a label."""
        named: dict[str, int | None] = {name: getattr(self, name) for name in VALUES if name in self.model_fields_set}
        if not named:
            raise BadInput("runs", "expected at least one of runs, tasks and weight")
        if "weight" in named and self.label is None:
            raise BadInput("weight", "only a label has a weight")
        return named


class PauseRequest(ChosenScope):
    """Pause a scope: new runs are accepted and wait, queued tasks stay queued, running work continues."""

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1024)] = Field(
        description="reason of the pause, for the readers of waiting runs"
    )


class ScopeLimits(Message):
    """A scope's stored limits."""

    scope: str
    runs: int | None = None
    tasks: int | None = None
    weight: int | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None


class LimitRecord(ScopeLimits):
    """A scope's limits, with the present use."""

    changed_at: datetime | None = None
    changed_by: str | None = None
    runs_begun: int = Field(default=0, description="runs that have begun and are not over")
    tasks_in_cluster: int = 0
    places_kept: int = Field(default=0, description="places kept for child tasks of runs that have begun")
    runs_held: int = Field(default=0, description="runs that wait because of this scope")
