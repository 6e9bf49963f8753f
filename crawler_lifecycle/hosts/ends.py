"""Store steps' ends, from a single thread. Ends from the time of a commit share the next commit."""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from queue import Empty, SimpleQueue

from crawler_lifecycle.base.pacing import Backoff
from crawler_lifecycle.errors import LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.flows.ports.steps import AttemptKey, StepEnd, StepLedger
from crawler_lifecycle.flows.rules.ends import AttemptEnd
from crawler_lifecycle.flows.rules.words import RESULT_UNUSABLE
from crawler_lifecycle.model.flow_states import EndKind

logger = logging.getLogger(__name__)
MOST_ENDS = 100  # in a commit
MOST_BYTES = 8 * 1024 * 1024  # for the results in a commit; a larger result has its own commit
PAUSES = Backoff(timedelta(milliseconds=100), timedelta(seconds=5))

Answer = asyncio.Future[AttemptEnd | None]  # the stored end; None: the attempt was lost


def key_of(end: StepEnd) -> AttemptKey:
    return end.flow_uid, end.start.number, end.start.attempt


class EndWriter:
    """The writer's thread. While the database is away, an end is written again and again.

    The writer belongs to the event loop that runs when the writer is made.
    """

    def __init__(self, ledger: StepLedger, token: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._ledger = ledger
        self._token = token
        self._queue: SimpleQueue[tuple[StepEnd, Answer] | None] = SimpleQueue()
        self._next: tuple[StepEnd, Answer] | None = None  # did not fit into the last commit
        self._gives_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step-ends", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def write(self, end: StepEnd) -> Answer:
        answer: Answer = self._loop.create_future()
        self._queue.put((end, answer))
        return answer

    def close(self, seconds: float) -> None:
        """Write the remaining ends within the time, and end the thread."""
        self._queue.put(None)
        self._thread.join(seconds)
        self._gives_up.set()

    def _run(self) -> None:
        while (group := self._group()) is not None:
            ends = [end for end, _ in group]
            recorded = self._write(ends)
            with suppress(RuntimeError):  # the host has ended, and its loop is closed
                self._loop.call_soon_threadsafe(_tell, group, recorded)

    def _group(self) -> list[tuple[StepEnd, Answer]] | None:
        """Wait for an end, and return all ends that have gathered; None: the writer has to end."""
        first = self._next or self._queue.get()
        self._next = None
        if first is None:
            return None
        group, size = [first], _size(first[0])
        while len(group) < MOST_ENDS:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following is None:
                self._queue.put(None)
                break
            size += _size(following[0])
            if size > MOST_BYTES:
                self._next = following
                break
            group.append(following)
        return group

    def _write(self, ends: Sequence[StepEnd]) -> Mapping[AttemptKey, AttemptEnd]:
        failures = 0
        while not self._gives_up.is_set():
            try:
                return self._ledger.end(ends, self._token)
            except PermanentError as error:
                if len(ends) > 1:  # a single end may be to blame
                    return {key: end for single in ends for key, end in self._write([single]).items()}
                ends, failures = [self._without_result(ends[0], error)], failures + 1
            except TemporaryError as error:
                failures += 1
                logger.warning("%d ends of steps are not recorded yet: %s", len(ends), error.message)
            except Exception:  # a fault of our own loses no end of a function: the write is tried again
                failures += 1
                logger.exception("%d ends of steps are not recorded yet", len(ends))
            time.sleep(PAUSES.seconds(failures))  # no event reports that the database is back
        return {}

    def _without_result(self, end: StepEnd, error: LifecycleError) -> StepEnd:
        """Return the end for an attempt whose result the database refuses."""
        logger.error("the end of member %s is refused: %s", end.start, error.message)
        return replace(
            end,
            kind=EndKind.FAILED,
            reason=RESULT_UNUSABLE,
            outcome=RESULT_UNUSABLE,
            error=f"the database refused the end: {error.message}",
            result=None,
        )


def _tell(group: Sequence[tuple[StepEnd, Answer]], recorded: Mapping[AttemptKey, AttemptEnd]) -> None:
    """Answer for all ends of a commit at once: each call from another thread wakes the loop through a socket."""
    for end, answer in group:
        if not answer.done():
            answer.set_result(recorded.get(key_of(end)))


def _size(end: StepEnd) -> int:
    return len(end.result or "")
