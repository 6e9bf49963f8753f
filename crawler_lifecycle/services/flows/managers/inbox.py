"""Inbox: news for all managers of a host, from one thread with one statement, and the limits for author's code."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.ports import ManagerLedger, ManagerNews, ManagerRef

logger = logging.getLogger(__name__)
LOOK_SECONDS = 0.25


@dataclass
class Box:
    """News for a manager. `changed` is notified about every look with news."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    news: ManagerNews | None = None
    has_due: bool = False  # since the box was last emptied
    must_leave: bool = False
    deadline: float | None = None  # for author's code under way
    kill: Callable[[], None] | None = None

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def leave(self) -> None:
        with self.changed:
            self.must_leave = True
            self.changed.notify_all()


class Inbox:
    """The boxes of all managers that hold claims with the token."""

    def __init__(self, ledger: ManagerLedger, token: str) -> None:
        self._ledger = ledger
        self._token = token
        self._boxes: dict[ManagerRef, Box] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, ref: ManagerRef) -> Box:
        box = Box()
        with self._lock:
            self._boxes[ref] = box
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="manager-news", daemon=True)
                self._thread.start()
        return box

    def close(self, ref: ManagerRef) -> None:
        with self._lock:
            self._boxes.pop(ref, None)

    def end(self) -> None:
        self._ends.set()

    def _run(self) -> None:
        since = datetime.now(UTC)
        while not self._ends.wait(LOOK_SECONDS):
            with self._lock:
                boxes = dict(self._boxes)
            self._end_late_code(boxes)
            if not boxes:
                continue
            now = datetime.now(UTC)
            try:
                news = self._ledger.news(self._token, since)
            except LifecycleError as error:
                logger.warning("crawl managers get no news: %s", error.message)
                continue
            except Exception:  # a fault of our own must not end the news for all managers
                logger.exception("crawl managers get no news")
                continue
            since = now
            for one_news in news:
                box = boxes.get(one_news.ref)
                if box is not None:
                    with box.changed:
                        box.news, box.has_due = one_news, box.has_due or one_news.has_due
                        box.changed.notify_all()

    def _end_late_code(self, boxes: dict[ManagerRef, Box]) -> None:
        for ref, box in boxes.items():
            if box.deadline is not None and monotonic() > box.deadline and box.kill is not None:
                logger.error("author's code of manager %d of flow %s takes too long", ref.member, ref.flow_uid)
                box.deadline = None
                box.kill()
