"""A manager's object in its own thread. The object runs only while the play waits."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue

from crawler_lifecycle.contract.managers.turns import Wake
from crawler_lifecycle.managers.driving import drive
from crawler_lifecycle.managers.workflow_manager import BaseLoopScript
from crawler_lifecycle.testing.manager_link import Death, PlayedLink, PlayStage


@dataclass(frozen=True)
class Asleep:
    """The object waits for news, at most for `seconds`."""

    seconds: float | None


@dataclass(frozen=True)
class Closed:
    """The manager's end is stored."""

    reason: str | None


@dataclass(frozen=True)
class Failed:
    """The object's thread has ended with an error."""

    error: BaseException


Turn = Asleep | Closed | Failed


class PlayedObject:
    """The object. `go_on` gives the object the turn until its next wait, and returns how the turn has ended."""

    def __init__(self, make: Callable[[], BaseLoopScript], stage: PlayStage) -> None:
        self._wakes: SimpleQueue[Wake] = SimpleQueue()
        self._turns: SimpleQueue[Turn] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._work = (make, stage, PlayedLink(stage, _waiting(self._wakes, self._turns)), self._turns)

    def go_on(self, wake: Wake) -> Turn:
        if self._thread is None:
            target = copy_context().run
            self._thread = threading.Thread(target=target, args=(_run, *self._work), name="manager", daemon=True)
            self._thread.start()
        else:
            self._wakes.put(wake)
        return self._turns.get()

    def leave(self) -> None:
        """End a waiting object, as a host does when it gives the manager up."""
        if self._thread is not None and self._thread.is_alive():
            self._wakes.put(Wake(must_leave=True))
            self._thread.join(timeout=10)


def _waiting(wakes: SimpleQueue[Wake], turns: SimpleQueue[Turn]) -> Callable[[float | None], Wake]:
    def wait(seconds: float | None) -> Wake:
        turns.put(Asleep(seconds))
        return wakes.get()

    return wait


def _run(make: Callable[[], BaseLoopScript], stage: PlayStage, link: PlayedLink, turns: SimpleQueue[Turn]) -> None:
    def make_known() -> BaseLoopScript:
        stage.manager = make()
        return stage.manager

    try:
        turns.put(Closed(drive(make_known, link)))
    except (Exception, Death, SystemExit) as error:  # noqa: BLE001 - the test sees every error
        turns.put(Failed(error))
