"""Listeners for the logs of jobs in a stop: pods take their logs with them, so a listener reads until the pod is gone.

A process that dies loses the logs heard so far; the next round of the stop listens again, from the log's beginning.
"""

import logging
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.logs.store import Logs
from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.domain.looks import JobKey
from crawler_lifecycle.errors import LifecycleError

logger = logging.getLogger(__name__)
MOST = 100  # at once: a listener needs a connection, a thread and a file
MOST_REMEMBERED = 1000  # a log heard to its end is not requested again: the node may have dropped the log
STALLED_SECONDS = 5.0  # since a listener last began or ended; then nothing waits for a free place any more
ANSWER_SECONDS = 1.0  # wait for a node's answer before its pod is asked to end; the pod may take its log along
END_SECONDS = 5.0  # from a pod's end until its log is kept


@dataclass(frozen=True, slots=True)
class _Listener:
    run_uid: str
    key: JobKey
    pod: Pod
    begun: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class Listening:
    """Listening holds the process's listeners by pod uid."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._changed = threading.Condition()
        self._listeners = dict[str, _Listener]()
        self._moved_at = 0.0  # when a listener last began or ended

    def begin(self, run_uid: str, key: JobKey, pod: Pod, until: float) -> None:
        """Begin a listener, once per pod, however many stops are requested.

        Wait until `until` for a free place, while other listeners end.
        """
        with self._changed:
            if _uid(pod) not in self._listeners and not self._has_place(until):
                return
            if _uid(pod) in self._listeners:  # another thread may have begun meanwhile
                return
            listener = self._listeners[_uid(pod)] = _Listener(run_uid, key, pod)
            self._moved_at = time.monotonic()
            self._forget()
        try:
            threading.Thread(target=self._hear, args=[listener], name="log", daemon=True).start()
        except RuntimeError:  # no thread is free
            self._end(listener, is_heard=False)

    def until_answered(self, pod: Pod, until: float) -> None:
        """Wait briefly for the answer of the pod's node, if the pod has a listener."""
        with self._changed:
            listener = self._listeners.get(_uid(pod))
        if listener:
            listener.begun.wait(max(0.0, min(ANSWER_SECONDS, until - time.monotonic())))

    def wait(self, run_uid: str, keys: Collection[JobKey], seconds: float = END_SECONDS) -> None:
        """Wait briefly for the jobs' listeners, which may still be writing the last lines of pods that are gone."""
        until = time.monotonic() + min(seconds, END_SECONDS)
        with self._changed:
            of_run = [listener for listener in self._listeners.values() if listener.run_uid == run_uid]
            awaited = [listener for listener in of_run if listener.key in keys]
        for listener in awaited:
            listener.over.wait(max(0.0, until - time.monotonic()))

    def _has_place(self, until: float) -> bool:
        """Return whether a place is free, after a wait while other listeners begin and end."""
        while sum(not listener.over.is_set() for listener in self._listeners.values()) >= MOST:
            patience = min(self._moved_at + STALLED_SECONDS, until) - time.monotonic()
            if not self._changed.wait(max(0.0, patience)):
                return False
        return True

    def _hear(self, listener: _Listener) -> None:
        is_heard = False
        try:
            self._logs.keep_to_its_end(listener.pod, listener.run_uid, *listener.key, begun=listener.begun.set)
            is_heard = True
        except (LifecycleError, OSError) as error:
            where = (listener.run_uid, *listener.key)
            logger.info("run %s, task %s, attempt %s: its log was not heard to its end: %s", *where, error)
        finally:
            self._end(listener, is_heard=is_heard)

    def _end(self, listener: _Listener, *, is_heard: bool) -> None:
        with self._changed:
            listener.begun.set()
            listener.over.set()
            self._moved_at = time.monotonic()
            if not is_heard:  # the next round of the stop may hear the log
                del self._listeners[_uid(listener.pod)]
            self._changed.notify_all()

    def _forget(self) -> None:
        """Forget the earliest listeners that are over."""
        over = [uid for uid, listener in self._listeners.items() if listener.over.is_set()]
        for uid in over[: max(0, len(self._listeners) - MOST_REMEMBERED)]:
            del self._listeners[uid]


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
