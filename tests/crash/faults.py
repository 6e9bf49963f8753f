"""How does what is behind a port misbehave? Once for each of its methods, in each of these ways.

The two that lose an answer look the same to whoever asked; what has become of the request differs.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
from temporalio import activity

from crawler_lifecycle.errors import LifecycleError, TemporaryError
from crawler_lifecycle.runs.activities.reconciliation import TRIES_OF_A_PAGE
from tests.crash.ports import Way

LATEST = 20.0
TIMES = {"remove_jobs.cluster.remove": TRIES_OF_A_PAGE}  # then it is the cluster that is asked
# RuntimeError: the activity that would beat is over; StopIteration: there was nothing more to ask for
IN_VAIN = (LifecycleError, RuntimeError, StopIteration)


class Fault(StrEnum):
    NOT_AT_ALL = "not_at_all"
    LOST_ANSWER = "lost_answer"
    TWICE = "twice"
    LATE = "late"
    LOST_COMMIT = "lost_commit"  # of the database, below its port


OF_PORTS = tuple(fault for fault in Fault if fault is not Fault.LOST_COMMIT)


@dataclass
class Faulty:
    """The way to ports that fail once a method, each activity by itself. The folder outlives the
    process: a file for each failure. `within`: only these activities, or else all."""

    fault: Fault
    folder: Path
    within: Collection[str] = ()
    _begun: Counter[str] = field(default_factory=Counter)
    _again: dict[str, threading.Event] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _under_way: set["asyncio.Task[None]"] = field(default_factory=set)

    def __call__(self, point: str, call: Callable[[], Any]) -> Any:
        name = activity.info().activity_type
        if self.within and name not in self.within:
            return call()
        point = f"{name}.{point}"
        return self.misbehave(point, call) if self.is_due(point) else self.behave(point, call)

    def is_due(self, point: str) -> bool:
        with self._lock:
            if self._begun[point] == TIMES.get(point, 1) or (not self._begun[point] and self._noted(point).exists()):
                return False
            self._begun[point] += 1
            self._again.setdefault(point, threading.Event())
            return True

    def is_first(self, name: str) -> bool:
        """The first time that this activity comes by."""
        with self._lock:
            if (self.within and name not in self.within) or self._noted(name).exists():
                return False
            self._noted(name).touch()
            return True

    def behave(self, point: str, call: Callable[[], Any]) -> Any:
        """Somebody asks again, or anew: what is late comes after that."""
        if _is_awaited(call):
            return self._awaited(point, call)
        try:
            return call()
        finally:
            self._was_asked(point)

    def misbehave(self, point: str, call: Callable[[], Any]) -> Any:
        if _is_awaited(call):
            return self._awaited_in_vain(point, call)
        if self.fault is Fault.LATE:
            here = contextvars.copy_context()
            threading.Thread(target=here.run, args=(self._late, point, call), daemon=True).start()
        else:
            self._noted(point).touch()
            if self.fault is not Fault.NOT_AT_ALL:
                call()
            if self.fault is Fault.TWICE:
                return call()
        raise self._error(point)

    async def _awaited(self, point: str, call: Callable[[], Any]) -> Any:
        try:
            return await call()
        finally:
            self._was_asked(point)

    async def _awaited_in_vain(self, point: str, call: Callable[[], Any]) -> Any:
        if self.fault is Fault.LATE:
            coming = asyncio.create_task(self._awaited_late(point, call))
            self._under_way.add(coming)
            coming.add_done_callback(self._under_way.discard)
        else:
            self._noted(point).touch()
            if self.fault is not Fault.NOT_AT_ALL:
                await call()
            if self.fault is Fault.TWICE:
                return await call()
        raise self._error(point)

    def _late(self, point: str, call: Callable[[], Any]) -> None:
        """A request that was under way for long: whoever sent it has asked again and had an answer by now."""
        self._again[point].wait(LATEST)
        with contextlib.suppress(*IN_VAIN):
            call()
        self._noted(point).touch()

    async def _awaited_late(self, point: str, call: Callable[[], Any]) -> None:
        await asyncio.to_thread(self._again[point].wait, LATEST)
        with contextlib.suppress(*IN_VAIN):
            await call()
        self._noted(point).touch()

    def _was_asked(self, point: str) -> None:
        if point in self._again:
            self._again[point].set()

    def _noted(self, point: str) -> Path:
        return self.folder / f"{point}.{self.fault}"

    def _error(self, point: str) -> TemporaryError:
        return TemporaryError(f"{point}: {self.fault}, as the test wants it")


def one_after_the_other(folder: Path, well: Way) -> Way:
    """Each call of a method meets the next fault, and goes `well` when all were had."""
    return partial(_the_next, [Faulty(fault, folder) for fault in OF_PORTS], well)


def one_fault(faulty: Faulty, well: Way) -> Way:
    """Each call of a method meets this fault once, and then goes `well`."""
    return partial(_the_next, [faulty], well)


def _the_next(faulty: Sequence[Faulty], well: Way, point: str, call: Callable[[], Any]) -> Any:
    for each in faulty:
        if each.is_due(point):
            return each.misbehave(point, call)
    late = [each for each in faulty if each.fault is Fault.LATE] or faulty
    through = partial(well, point, call)
    return late[0].behave(point, _awaited(through) if _is_awaited(call) else through)


def _awaited(through: Callable[[], Any]) -> Callable[[], Any]:
    async def awaited() -> Any:
        return await through()

    return awaited


def _is_awaited(call: Callable[[], Any]) -> bool:
    return inspect.iscoroutinefunction(call.func if hasattr(call, "func") else call)


class LosingCommits(pymysql.connections.Connection):
    """A connection that ends after the first commit of each activity, before the answer comes."""

    faulty: Faulty

    def commit(self) -> None:
        super().commit()
        if activity.in_activity() and self.faulty.is_first(activity.info().activity_type):
            self._force_close()  # type: ignore[attr-defined]  # theirs, and nothing else ends it without a word
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
