"""Inbox: news for a host's managers, from a single thread with a single statement."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.hosts.managers.box import Box
from crawler_lifecycle.managers.ports import ManagerLedger, ManagerRef

logger = logging.getLogger(__name__)
LOOK_SECONDS = 0.25


class Inbox:
    """The boxes for all managers with the token's claims."""

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
