"""Listeners keep the logs of jobs in a stop: a deleted pod takes its log along, so a listener reads to the log's end.

A listener is a thread that reads the log of one pod, and writes the log among the run's files when the pod has ended.
A process that dies loses the unfinished logs; the next round of the stop reads them again, from their beginning.
"""

import logging
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from crawler_lifecycle.clusters.kubernetes.logs.store import Logs
from crawler_lifecycle.clusters.kubernetes.objects import Pod
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.looks import JobKey

logger = logging.getLogger(__name__)
MOST_LISTENERS = 100  # reading at once: a listener needs a connection, a thread and a file
# Listeners kept in memory, with those that have ended. A pod with a listener in memory gets no second listener: a log
# read to its end is not requested again, since the node may have dropped the log.
MOST_REMEMBERED = 1000
# If for this long no listener began or ended, a new listener does not wait for a free place any longer.
STALLED_SECONDS = 5.0
ANSWER_SECONDS = 1.0  # a pod's deletion waits at most this long for the first answer from the pod's node
END_SECONDS = 5.0  # most seconds from a pod's end until its log is kept


@dataclass(frozen=True, slots=True)
class _Listener:
    run_uid: str
    key: JobKey
    pod: Pod
    answered: threading.Event = field(default_factory=threading.Event)  # by the node, or the listener has ended
    ended: threading.Event = field(default_factory=threading.Event)  # the log is kept, or could not be read to its end


class Listening:
    """The process's listeners by pod uid: reading listeners, and the latest listeners that have kept their log."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._changed = threading.Condition()  # notified when a listener ends; also the lock for the listeners
        self._listeners = dict[str, _Listener]()
        self._last_change_at = 0.0  # when a listener last began or ended

    def begin(self, run_uid: str, key: JobKey, pod: Pod, until: float) -> None:
        """Begin a listener for the pod's log, unless the pod had a listener already.

        Wait until `until` for a free place, while other listeners end. Without a free place the pod gets no listener.
        """
        with self._changed:
            if _uid(pod) not in self._listeners and not self._wait_for_place(until):
                return
            if _uid(pod) in self._listeners:  # another thread may have begun a listener during the wait
                return
            listener = self._listeners[_uid(pod)] = _Listener(run_uid, key, pod)
            self._last_change_at = time.monotonic()
            self._forget_earliest()
        try:
            threading.Thread(target=self._listen, args=[listener], name="log", daemon=True).start()
        except RuntimeError:  # no thread is free
            self._end(listener, is_kept=False)

    def wait_for_answer(self, pod: Pod, until: float) -> None:
        """Wait briefly until the pod's node sends the log; return at once if the pod has no listener."""
        with self._changed:
            listener = self._listeners.get(_uid(pod))
        if listener:
            listener.answered.wait(max(0.0, min(ANSWER_SECONDS, until - time.monotonic())))

    def wait(self, run_uid: str, keys: Collection[JobKey], seconds: float = END_SECONDS) -> None:
        """Wait briefly until the jobs' listeners have ended: their pods may be gone, and last lines not written yet."""
        until = time.monotonic() + min(seconds, END_SECONDS)
        with self._changed:
            listeners_of_run = [listener for listener in self._listeners.values() if listener.run_uid == run_uid]
            awaited = [listener for listener in listeners_of_run if listener.key in keys]
        for listener in awaited:
            listener.ended.wait(max(0.0, until - time.monotonic()))

    def _wait_for_place(self, until: float) -> bool:
        """Wait while other listeners begin and end. Return whether a place is free."""
        while sum(not listener.ended.is_set() for listener in self._listeners.values()) >= MOST_LISTENERS:
            wait_until = min(self._last_change_at + STALLED_SECONDS, until)
            if not self._changed.wait(max(0.0, wait_until - time.monotonic())):
                return False
        return True

    def _listen(self, listener: _Listener) -> None:
        """Keep the pod's log; the body of the listener's thread."""
        is_kept = False
        try:
            self._logs.keep_to_its_end(listener.pod, listener.run_uid, *listener.key, on_answer=listener.answered.set)
            is_kept = True
        except (LifecycleError, OSError) as error:
            attempt = (listener.run_uid, *listener.key)
            logger.info("run %s, task %s, attempt %s: its log was not heard to its end: %s", *attempt, error)
        finally:
            self._end(listener, is_kept=is_kept)

    def _end(self, listener: _Listener, *, is_kept: bool) -> None:
        with self._changed:
            listener.answered.set()  # no thread may wait for an answer any more
            listener.ended.set()
            self._last_change_at = time.monotonic()
            if not is_kept:  # the next round of the stop may begin another listener for the pod
                del self._listeners[_uid(listener.pod)]
            self._changed.notify_all()

    def _forget_earliest(self) -> None:
        """Forget the earliest listeners that have ended, while more than MOST_REMEMBERED are in memory."""
        ended = [uid for uid, listener in self._listeners.items() if listener.ended.is_set()]
        for uid in ended[: max(0, len(self._listeners) - MOST_REMEMBERED)]:
            del self._listeners[uid]


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
