"""The inbox reads news for a host's managers, from a single thread with a single statement.

A box wakes its manager's thread for news, for its object's messages, and for the host's end.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows.model.turns import ManagerIntent
from crawler_lifecycle.managers.ports import ManagerLedger, ManagerNews, ManagerRef

logger = logging.getLogger(__name__)
T = TypeVar("T")
LOOK_SECONDS = 0.25


@dataclass
class Box:
    """A manager's box. The manager's thread waits, and further threads put news in and notify."""

    on_stop: Callable[[], None] = lambda: None  # called at people's stop
    changed: threading.Condition = field(default_factory=threading.Condition)
    news: ManagerNews | None = None  # since the object's last sleep
    has_due: bool = False  # whether an item may start since the object's last sleep
    must_leave: bool = False  # whether another host continues the manager
    object_ended: bool = False  # whether the present object's process is gone
    _object: object = None

    @property
    def is_interrupted(self) -> bool:
        """Whether the host's answer has no reader any more."""
        return self.must_leave or self.object_ended

    @property
    def has_something(self) -> bool:
        return self.news is not None or self.has_due

    def put(self, news: ManagerNews) -> None:
        if news.intent is ManagerIntent.STOP:
            self.on_stop()
        with self.changed:
            self.news, self.has_due = news, self.has_due or news.has_due
            self.changed.notify_all()

    def note_change(self) -> None:
        """Wake the object, because the host itself has changed an item."""
        with self.changed:
            self.has_due = True
            self.changed.notify_all()

    def take(self) -> tuple[ManagerNews | None, bool]:
        """Empty the box. Return the news, and whether an item may start."""
        with self.changed:
            taken = self.news, self.has_due
            self.news, self.has_due = None, False
            return taken

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def leave(self) -> None:
        with self.changed:
            self.must_leave = True
            self.changed.notify_all()

    def begin_object(self, process: object) -> None:
        with self.changed:
            self._object, self.object_ended = process, False

    def end_object(self, process: object) -> None:
        """Note the process's end. A previous process's end does not concern the present object."""
        with self.changed:
            self.object_ended = self.object_ended or process is self._object
            self.changed.notify_all()

    def wait(self, holds: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until the condition holds. Return whether the condition holds."""
        with self.changed:
            return bool(self.changed.wait_for(holds, seconds))

    def result(self, future: "Future[T]", otherwise: T) -> T:
        """Wait for the future's result. Return the default if the host's answer has no reader."""
        future.add_done_callback(lambda _: self.wake())
        self.wait(lambda: future.done() or self.is_interrupted, None)
        return future.result() if future.done() else otherwise


class Inbox:
    """The boxes for all managers that the host with the token has begun."""

    def __init__(self, ledger: ManagerLedger, token: str) -> None:
        self._ledger = ledger
        self._token = token
        self._boxes: dict[ManagerRef, Box] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def open(self, ref: ManagerRef, on_stop: Callable[[], None]) -> Box:
        box = Box(on_stop)
        with self._changed:
            self._boxes[ref] = box
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="manager-news", daemon=True)
                self._thread.start()
        return box

    def close(self, ref: ManagerRef, box: Box) -> None:
        """Forget the box. The box of the same manager's next beginning stays."""
        with self._changed:
            if self._boxes.get(ref) is box:
                del self._boxes[ref]

    def _run(self) -> None:
        since = datetime.now(UTC)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._boxes)
                self._changed.wait_for(lambda: not self._boxes, LOOK_SECONDS)
                boxes = dict(self._boxes)
            since = self._look(boxes, since)

    def _look(self, boxes: dict[ManagerRef, Box], since: datetime) -> datetime:
        """Put the news since the last look into the boxes. Return the time of the look."""
        now = datetime.now(UTC)
        try:
            news = self._ledger.news(self._token, since)
        except LifecycleError as error:
            logger.warning("crawl managers get no news: %s", error.message)
            return since
        except Exception:  # our own fault must not end the news for all managers
            logger.exception("crawl managers get no news")
            return since
        for of_manager in news:
            if (box := boxes.get(of_manager.ref)) is not None:
                box.put(of_manager)
        return now
