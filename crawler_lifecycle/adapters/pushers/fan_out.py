"""Send a notice to several receivers, of which any may fail without harm to the rest.

All receivers get a notice at the same time. A retry leaves out receivers that have accepted the notice or refused it
for good: the process remembers the latest outcomes. A retry in another process reaches all receivers again, and they
drop the repeat by its id. `LimitedPusher` limits the notices under way at once: a slow receiver must leave worker slots
for the steps of runs.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.errors import LifecycleError, NotReady, PermanentError, Refused, TemporaryError
from crawler_lifecycle.ports import Pusher

REMEMBERED = 10_000  # outcomes, one for every notice and receiver


class NamedPusher(Pusher, Protocol):
    @property
    def name(self) -> str: ...


class FanOut:
    def __init__(self, pushers: Sequence[NamedPusher]) -> None:
        self._pushers = pushers
        self._settled: OrderedDict[tuple[str, NamedPusher], PermanentError | None] = OrderedDict()
        self._lock = threading.Lock()

    def send(self, notice: Notice) -> None:
        outcomes = self._for_all(lambda pusher: self._send_once(pusher, notice))
        errors = [(pusher, error) for pusher, error in outcomes if error]
        if not errors:
            return
        message = "; ".join(f"{pusher.name}: {error.message}" for pusher, error in errors)
        if all(isinstance(error, PermanentError) for _, error in errors):
            raise Refused(message)
        raise TemporaryError(message)

    def check(self) -> str:
        lines: list[str] = []

        def check(pusher: NamedPusher) -> LifecycleError | None:
            try:
                line = pusher.check()
            except LifecycleError as error:
                return error
            lines.append(line)
            return None

        problems = [f"{pusher.name}: {error.message}" for pusher, error in self._for_all(check) if error]
        if problems:
            raise NotReady("; ".join(problems))
        return ", ".join(sorted(lines)) or "nobody is told"

    def _for_all(
        self, action: Callable[[NamedPusher], LifecycleError | None]
    ) -> list[tuple[NamedPusher, LifecycleError | None]]:
        """Run the action for all receivers at once, so that a slow receiver does not delay the others."""
        if len(self._pushers) < 2:
            return [(pusher, action(pusher)) for pusher in self._pushers]
        with ThreadPoolExecutor(len(self._pushers), thread_name_prefix="notify") as pool:
            return list(zip(self._pushers, pool.map(action, self._pushers), strict=True))

    def _send_once(self, pusher: NamedPusher, notice: Notice) -> LifecycleError | None:
        key = (notice.notice_id, pusher)
        with self._lock:
            if key in self._settled:
                return self._settled[key]
        outcome = None
        try:
            pusher.send(notice)
        except PermanentError as error:
            outcome = error
        except LifecycleError as error:
            return error
        with self._lock:
            self._settled[key] = outcome
            while len(self._settled) > REMEMBERED:
                self._settled.popitem(last=False)
        return outcome


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
