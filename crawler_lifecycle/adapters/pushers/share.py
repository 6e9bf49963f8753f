"""How many notices may be under way at once? A share of the worker's slots: the others are for what runs depend on."""

import threading

from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.ports import Pusher

LONGEST_WAIT = 1.0  # seconds: receivers that answer have taken theirs by then


class Share:
    def __init__(self, pusher: Pusher, most: int) -> None:
        self._pusher = pusher
        self._turns = threading.BoundedSemaphore(most)

    def send(self, notice: Notice) -> None:
        if not self._turns.acquire(timeout=LONGEST_WAIT):
            raise TemporaryError("others are waited for until it is its turn: a receiver is slow")
        try:
            self._pusher.send(notice)
        finally:
            self._turns.release()

    def check(self) -> str:
        return self._pusher.check()
