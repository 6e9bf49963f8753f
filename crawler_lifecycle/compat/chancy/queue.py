"""Chancy's queues: names for jobs' queues. A host chooses its queues and its slots."""

from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any


@dataclass(frozen=True)
class Queue:
    """A queue's name. All further fields are kept, and have no effect."""

    class State(Enum):
        ACTIVE = "active"
        PAUSED = "paused"

    name: str
    _: KW_ONLY
    concurrency: int | None = None
    tags: set[str] = field(default_factory=lambda: {".*"})
    state: State = State.ACTIVE
    executor: str | None = None
    executor_options: dict[str, Any] = field(default_factory=dict)
    polling_interval: int = 5
    rate_limit: int | None = None
    rate_limit_window: int | None = None
    resume_at: datetime | None = None
    eager_polling: bool = False
