"""How does what is behind a port misbehave? Once for each of its methods, in each of these ways.

The two that lose an answer look the same to whoever asked; what has become of the request differs.
"""

import contextlib
import contextvars
import inspect
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pymysql
from temporalio import activity

from crawler_lifecycle.errors import LifecycleError, TemporaryError

LATEST = 20.0


class Fault(StrEnum):
    NOT_AT_ALL = "not_at_all"
    LOST_ANSWER = "lost_answer"
    TWICE = "twice"
    LATE = "late"
    LOST_COMMIT = "lost_commit"  # of the database, below its port


@dataclass
class Faulty:
    """The way to ports that fail once a method; each is noted in a file of the folder."""

    fault: Fault
    folder: Path
    _asked: Counter[str] = field(default_factory=Counter)
    _again: dict[str, threading.Event] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, point: str, call: Callable[[], Any]) -> Any:
        if inspect.iscoroutinefunction(call.func if hasattr(call, "func") else call):
            return self._awaited(point, call)
        if not self._is_first(point):
            try:
                return call()
            finally:
                self._again[point].set()
        return self._misbehave(point, call)

    def _is_first(self, point: str) -> bool:
        with self._lock:
            self._asked[point] += 1
            self._again.setdefault(point, threading.Event())
            return self._asked[point] == 1

    def _misbehave(self, point: str, call: Callable[[], Any]) -> Any:
        (self.folder / point).touch()
        if self.fault is Fault.LATE:
            here = contextvars.copy_context()
            threading.Thread(target=here.run, args=(self._late, point, call), daemon=True).start()
        elif self.fault is not Fault.NOT_AT_ALL:
            call()
        if self.fault is Fault.TWICE:
            return call()
        raise TemporaryError(f"{point}: {self.fault}, as the test wants it")

    async def _awaited(self, point: str, call: Callable[[], Any]) -> Any:
        if not self._is_first(point):
            return await call()
        (self.folder / point).touch()
        if self.fault is not Fault.NOT_AT_ALL:
            await call()
        if self.fault is Fault.TWICE:
            return await call()
        raise TemporaryError(f"{point}: {self.fault}, as the test wants it")

    def _late(self, point: str, call: Callable[[], Any]) -> None:
        """A request that was under way for long: whoever sent it has asked again and had an answer by now."""
        self._again[point].wait(LATEST)
        with contextlib.suppress(LifecycleError, RuntimeError):  # RuntimeError: the activity that would beat is over
            call()


class LosingCommits(pymysql.connections.Connection):
    """A connection that ends after the first commit of each activity, before the answer comes."""

    folder: Path
    lock = threading.Lock()

    def commit(self) -> None:
        super().commit()
        if activity.in_activity() and self._is_first(activity.info().activity_type):
            self._force_close()  # type: ignore[attr-defined]  # theirs, and nothing else ends it without a word
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    def _is_first(self, name: str) -> bool:
        with self.lock:
            try:
                (self.folder / name).touch(exist_ok=False)
            except FileExistsError:
                return False
            return True
