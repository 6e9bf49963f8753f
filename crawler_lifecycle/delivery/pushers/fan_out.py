"""Send a notice to several receivers, so that a receiver's failure does not harm other receivers.

All receivers get a notice at the same time. A retry leaves out receivers that have accepted the notice or refused the
notice for good: the process remembers the latest outcomes. A retry in another process reaches all receivers again, and
the receivers drop the repeated notice by its id. `LimitedPusher` limits the notices under way at once: a slow receiver
must leave worker slots for the steps of runs.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from crawler_lifecycle.delivery.ports import Pusher
from crawler_lifecycle.errors import LifecycleError, NotReady, PermanentError, Refused, TemporaryError
from crawler_lifecycle.metrics import NOTICES
from crawler_lifecycle.model.notices import AnyNotice

MOST_OUTCOMES = 10_000  # largest number of remembered outcomes, one for every notice and receiver
LONGEST_WAIT = 1.0  # seconds that a notice waits for a slot: a working receiver accepts a notice faster


class NamedPusher(Pusher, Protocol):
    @property
    def name(self) -> str: ...


class FanOut:
    """Pusher to several receivers."""

    def __init__(self, pushers: Sequence[NamedPusher]) -> None:
        self._pushers = pushers
        # final outcomes by notice and receiver: None for an accepted notice, the error for a refused notice
        self._final_outcomes: OrderedDict[tuple[str, NamedPusher], PermanentError | None] = OrderedDict()
        self._lock = threading.Lock()

    def send(self, notice: AnyNotice) -> None:
        """Send the notice to all receivers. Raise Refused if all errors are permanent, else TemporaryError."""
        outcomes = self._for_all(lambda pusher: self._send_once(pusher, notice))
        errors = [(pusher, error) for pusher, error in outcomes if error]
        if not errors:
            NOTICES.labels("sent").inc()
            return
        message = "; ".join(f"{pusher.name}: {error.message}" for pusher, error in errors)
        if all(isinstance(error, PermanentError) for _, error in errors):
            NOTICES.labels("refused").inc()
            raise Refused(message)
        NOTICES.labels("failed").inc()
        raise TemporaryError(message)

    def check(self) -> str:
        """Check all receivers and return their lines. Raise NotReady with all problems."""
        lines: list[str] = []

        def check_one(pusher: NamedPusher) -> LifecycleError | None:
            try:
                line = pusher.check()
            except LifecycleError as error:
                return error
            lines.append(line)
            return None

        problems = [f"{pusher.name}: {error.message}" for pusher, error in self._for_all(check_one) if error]
        if problems:
            raise NotReady("; ".join(problems))
        return ", ".join(sorted(lines)) or "nobody is notified"

    def _for_all(
        self, action: Callable[[NamedPusher], LifecycleError | None]
    ) -> list[tuple[NamedPusher, LifecycleError | None]]:
        """Run the action for all receivers at once: a slow receiver must not delay the rest.

        Return every receiver with the action's result: the error, or None.
        """
        if len(self._pushers) < 2:
            return [(pusher, action(pusher)) for pusher in self._pushers]
        with ThreadPoolExecutor(len(self._pushers), thread_name_prefix="notify") as pool:
            return list(zip(self._pushers, pool.map(action, self._pushers), strict=True))

    def _send_once(self, pusher: NamedPusher, notice: AnyNotice) -> LifecycleError | None:
        """Send the notice unless its outcome here is final. Return the error; None for an accepted notice."""
        key = (notice.notice_id, pusher)
        with self._lock:
            if key in self._final_outcomes:
                return self._final_outcomes[key]
        outcome = None
        try:
            pusher.send(notice)
        except PermanentError as error:
            outcome = error
        except LifecycleError as error:
            return error  # temporary, and so not remembered
        with self._lock:
            self._final_outcomes[key] = outcome
            while len(self._final_outcomes) > MOST_OUTCOMES:
                self._final_outcomes.popitem(last=False)  # the oldest outcome
        return outcome


class LimitedPusher:
    """Pusher that sends at most `most` notices at once. Further notices wait for a slot, then fail for now."""

    def __init__(self, pusher: Pusher, most: int) -> None:
        self._pusher = pusher
        self._slots = threading.BoundedSemaphore(most)

    def send(self, notice: AnyNotice) -> None:
        if not self._slots.acquire(timeout=LONGEST_WAIT):
            raise TemporaryError("others are waited for until it is its turn: a receiver is slow")
        try:
            self._pusher.send(notice)
        finally:
            self._slots.release()

    def check(self) -> str:
        return self._pusher.check()
