"""The inbox of a host reads the news for the host's managers."""

import queue
from datetime import datetime
from typing import cast

import pytest

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.model.turns import ManagerIntent
from crawler_lifecycle.hosts.managers.inbox import Inbox
from crawler_lifecycle.managers.ports import ManagerLedger, ManagerNews, ManagerRef

MANAGER = ManagerRef("flow", 0, 1, "token")
NEWS = ManagerNews(MANAGER, ManagerIntent.RUN, has_ends=False, has_due=False, items_door=0, has_problem=False)


class FailingLedger:
    """A ledger whose second answer is a failure. `looks` are the times since when the inbox wants news."""

    def __init__(self, failure: Exception) -> None:
        self.looks: queue.Queue[datetime] = queue.Queue()
        self._answers: list[list[ManagerNews] | Exception] = [[NEWS], failure]

    def news(self, _token: str, since: datetime) -> list[ManagerNews]:
        self.looks.put(since)
        answer = self._answers.pop(0) if self._answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("failure", [TemporaryError("away"), RuntimeError("a fault of our own")])
def test_news_are_read_since_the_last_look_that_did_not_fail(failure: Exception) -> None:
    """Otherwise an item whose pause ends between two looks would never be due to its manager."""
    ledger = FailingLedger(failure)
    inbox = Inbox(cast(ManagerLedger, ledger), MANAGER.token)
    box = inbox.open(MANAGER, lambda: None)
    first, second, after_failure, last = (ledger.looks.get(timeout=10) for _ in range(4))
    inbox.close(MANAGER, box)
    assert first < second == after_failure < last
    assert box.take() == (NEWS, False)
