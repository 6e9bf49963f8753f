"""Phases: author's hook or page under way in an object's process, with its time."""

from collections.abc import Collection
from dataclasses import dataclass, field

START = "start"  # the module's import, and the object's making
CYCLE = "process"  # the process outside of author's code
PAGE_PHASE = "set_parameters_gen"


@dataclass
class Phases:
    """An object's phases. Only the time from the host's answer to the next call counts."""

    hook_seconds: float
    page_seconds: float
    name: str = START
    about: str | None = None  # key for the job in question
    _spent: float = 0.0
    _passed: set[str] = field(default_factory=set)  # since the last sleep

    def enter(self, phase: str, about: str | None = None) -> None:
        self._passed.add(self.name)
        self.name, self.about, self._spent = phase, about, 0.0

    def spend(self, seconds: float) -> None:
        self._spent += seconds

    @property
    def limit(self) -> float:
        return self.page_seconds if self.name in (START, PAGE_PHASE) else self.hook_seconds

    @property
    def remaining(self) -> float:
        return max(0.0, self.limit - self._spent)

    def take_passed(self) -> Collection[str]:
        """Return the ending cycle's phases. A page is no progress, since it may hold nothing new."""
        self.enter(CYCLE)
        passed, self._passed = self._passed - {PAGE_PHASE}, set()
        return passed
