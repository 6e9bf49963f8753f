"""Limit the notices under way at once: a slow receiver must leave worker slots for the steps of runs."""

import threading

from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import Pusher

LONGEST_WAIT = 1.0  # seconds: a working receiver has accepted its notice by then


class LimitedPusher:
    def __init__(self, pusher: Pusher, most: int) -> None:
        self._pusher = pusher
        self._slots = threading.BoundedSemaphore(most)

    def send(self, notice: Notice) -> None:
        if not self._slots.acquire(timeout=LONGEST_WAIT):
            raise TemporaryError("others are waited for until it is its turn: a receiver is slow")
        try:
            self._pusher.send(notice)
        finally:
            self._slots.release()

    def check(self) -> str:
        return self._pusher.check()
