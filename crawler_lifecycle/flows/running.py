"""Running: the objects for a step while the step runs, and its cancel."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler_lifecycle.contract.flows.names import last_name


class Cancel(Exception):
    """A step returns or raises a cancel to cancel itself, with a reason. The step is not tried again."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class RunningJob:
    """A step's running attempt, for worker classes."""

    flow_id: str
    path: str
    args: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    generation: int = 1
    flow_name: str | None = None
    flow_uid: str = ""
    is_grafter: bool = False

    @property
    def name(self) -> str:
        return last_name(self.path)

    @property
    def key(self) -> str:
        """Key for outside systems, with the same value for all attempts in a generation."""
        return f"{self.flow_uid or self.flow_id}:{self.path}:{self.generation}"

    @property
    def meta(self) -> dict[str, Any]:
        """The job's place in its workflow, under the names for users from Oban."""
        return {"name": self.name, "workflow_id": self.flow_id, "workflow_name": self.flow_name, "path": self.path}


class Context(Mapping[str, Any]):
    """Context values and the dependencies' results, by name. The first read loads a result."""

    def __init__(
        self, names: Mapping[str, Callable[[], Any]], job: RunningJob, results: Callable[[str], Any] | None = None
    ) -> None:
        self._names = names
        self._values: dict[str, Any] = {}
        self._results = results
        self.job = job

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def key(self) -> str:
        return self.job.key

    def results(self, path: str) -> Any:
        """Return an ended job's result by its path."""
        if self._results is None:
            raise KeyError(path)
        return self._results(path)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._names[name]()
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
