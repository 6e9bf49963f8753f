"""How are several receivers told of the same, when any of them may fail?

All are told at once. Who has taken a notice, or never will, is not told again while the others are tried: this process
remembers the latest. Another process that goes on with the tries does not know; receivers drop repeats by their ids.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from crawler_lifecycle.contract.notices import Notice
from crawler_lifecycle.errors import LifecycleError, NotReady, PermanentError, Refused, TemporaryError
from crawler_lifecycle.ports import Pusher

REMEMBERED = 10_000


class NamedPusher(Pusher, Protocol):
    @property
    def name(self) -> str: ...


class Several:
    def __init__(self, pushers: Sequence[NamedPusher]) -> None:
        self._pushers = pushers
        self._settled: OrderedDict[tuple[str, NamedPusher], PermanentError | None] = OrderedDict()
        self._lock = threading.Lock()

    def send(self, notice: Notice) -> None:
        outcomes = self._each(lambda pusher: self._tell(pusher, notice))
        problems = [f"{pusher.name}: {error.message}" for pusher, error in outcomes if error]
        if not problems:
            return
        final = all(isinstance(error, PermanentError) for _, error in outcomes if error)
        raise (Refused if final else TemporaryError)("; ".join(problems))

    def check(self) -> str:
        lines: list[str] = []

        def check(pusher: NamedPusher) -> LifecycleError | None:
            try:
                line = pusher.check()
            except LifecycleError as error:
                return error
            lines.append(line)
            return None

        problems = [f"{pusher.name}: {error.message}" for pusher, error in self._each(check) if error]
        if problems:
            raise NotReady("; ".join(problems))
        return ", ".join(sorted(lines)) or "nobody is told"

    def _each(self, work: "Work") -> list[tuple[NamedPusher, LifecycleError | None]]:
        """One that is slow does not hold up the others."""
        if len(self._pushers) < 2:
            return [(pusher, work(pusher)) for pusher in self._pushers]
        with ThreadPoolExecutor(len(self._pushers), thread_name_prefix="notify") as pool:
            return list(zip(self._pushers, pool.map(work, self._pushers), strict=True))

    def _tell(self, pusher: NamedPusher, notice: Notice) -> LifecycleError | None:
        key = (notice.notice_id, pusher)
        with self._lock:
            if key in self._settled:
                return self._settled[key]
        try:
            pusher.send(notice)
        except PermanentError as error:
            self._settle(key, error)
            return error
        except LifecycleError as error:
            return error
        self._settle(key, None)
        return None

    def _settle(self, key: tuple[str, NamedPusher], outcome: PermanentError | None) -> None:
        with self._lock:
            self._settled[key] = outcome
            while len(self._settled) > REMEMBERED:
                self._settled.popitem(last=False)


class Work(Protocol):
    def __call__(self, pusher: NamedPusher, /) -> LifecycleError | None: ...
