"""Measures time, CPU, memory and database statements."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from sqlalchemy import event

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.settings import PREFIX
from crawler_lifecycle.settings.installation import TEMPORAL

BARE_PYTHON = [sys.executable, "-c", "pass"]
PATIENCE = 60.0


def seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Taken:
    """Time and CPU time from a process's start to its end. Other load on the machine hardly changes CPU time."""

    seconds: float
    cpu_seconds: float


def side_by_side(commands: Mapping[str, Sequence[str]], repeats: int) -> dict[str, Taken]:
    """Return the median for every command. The commands run in turn, so that a busy moment affects all of them."""
    for command in commands.values():
        _take(command)  # the first start compiles the imported modules
    taken = [{name: _take(command) for name, command in commands.items()} for _ in range(repeats)]
    return {
        name: Taken(
            statistics.median(turn[name].seconds for turn in taken),
            statistics.median(turn[name].cpu_seconds for turn in taken),
        )
        for name in commands
    }


def _take(command: Sequence[str]) -> Taken:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = seconds_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def cpu_seconds(process: psutil.Process, *, children: bool = False) -> float:
    """Return the CPU seconds that the process, or its ended children, have used."""
    times = process.cpu_times()
    return float(times.children_user + times.children_system if children else times.user + times.system)


@dataclass
class Ledger:
    """Milliseconds and statements."""

    database: Database
    milliseconds: float = 0.0
    statements: int = 0

    @contextmanager
    def spent(self) -> Iterator[None]:
        event.listen(self.database.engine, "before_cursor_execute", self._count)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.milliseconds += (time.perf_counter() - began) * 1000
            event.remove(self.database.engine, "before_cursor_execute", self._count)

    def _count(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self.statements += not statement.startswith("BEGIN")


def like_a_fresh_shell() -> None:
    """Remove our settings from the environment, so that the embedded profile is measured with its defaults."""
    for name in [name for name in os.environ if name.startswith((PREFIX, TEMPORAL))]:
        del os.environ[name]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise every start would compile our code anew
    sys.dont_write_bytecode = False
