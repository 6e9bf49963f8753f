"""What do jobs print until they are stopped? Pods take their logs with them, so somebody listens until they are gone.

A stop does not wait for it; evidence and export do, for seconds. What was heard of a log is lost with the process that
hears; the next round of the stop listens again, from the log's beginning.
"""

import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from crawler_lifecycle.adapters.kubernetes.logs import Logs
from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.status import Key
from crawler_lifecycle.errors import LifecycleError

logger = logging.getLogger(__name__)
MOST = 100  # at once: each is a connection, a thread and a file
MOST_REMEMBERED = 1000  # a log that was heard to its end is not asked for again: the node may have dropped it
END_SECONDS = 5.0  # from when a pod is gone until its log is where it belongs


@dataclass(frozen=True, slots=True)
class _Heard:
    run_uid: str
    key: Key
    pod: Pod
    over: threading.Event = field(default_factory=threading.Event)


class Listening:
    """Of one process, by the uids of pods."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._lock = threading.Lock()
        self._begun = dict[str, _Heard]()

    def free(self) -> int:
        """To how many more one can listen."""
        with self._lock:
            return self._free()

    def begin(self, run_uid: str, found: Mapping[Key, Sequence[Pod]]) -> None:
        """Once for each pod, however often a stop is asked for."""
        with self._lock:
            new = [_Heard(run_uid, key, pods[0]) for key, pods in found.items() if _uid(pods[0]) not in self._begun]
            for each in new[: self._free()]:
                with suppress(RuntimeError):  # no thread for it
                    threading.Thread(target=self._hear, args=[each], name="log", daemon=True).start()
                    self._begun[_uid(each.pod)] = each
            self._forget()

    def wait(self, run_uid: str, keys: Collection[Key], seconds: float = END_SECONDS) -> None:
        """Until what was heard of these, whose pods are gone, is kept; not for long."""
        until = time.monotonic() + min(seconds, END_SECONDS)
        with self._lock:
            asked = [each for each in self._begun.values() if each.run_uid == run_uid and each.key in keys]
        for each in asked:
            each.over.wait(max(0.0, until - time.monotonic()))

    def _hear(self, heard: _Heard) -> None:
        try:
            self._logs.keep_to_its_end(heard.pod, heard.run_uid, *heard.key)
        except (LifecycleError, OSError) as error:
            where = (heard.run_uid, *heard.key)
            logger.info("run %s, task %s, attempt %s: its log was not heard to its end: %s", *where, error)
            with self._lock:  # the next round of the stop may hear it
                del self._begun[_uid(heard.pod)]
        finally:
            heard.over.set()

    def _free(self) -> int:
        return max(0, MOST - sum(not each.over.is_set() for each in self._begun.values()))

    def _forget(self) -> None:
        """The earliest that are over."""
        over = [uid for uid, each in self._begun.items() if each.over.is_set()]
        for uid in over[: max(0, len(self._begun) - MOST_REMEMBERED)]:
            del self._begun[uid]


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
