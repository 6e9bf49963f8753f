"""Processes of ours that are killed again and again: one that has everything loaded, and forks them.

    python -m tests.crash.children children.json

Who dies of a SIGKILL gets a successor at once; who ends by itself, as Temporal or the database does not answer, after
a pause. It ends with its parent.
"""

import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from crawler_lifecycle.cli.program import main as crawlctl
from crawler_lifecycle.processes import dispatcher, lifecycle, scheduler, watcher
from tests.crash import graph, hooks, managing
from tests.crash.deaths import Deaths
from tests.crash.faults import Fault, Faulty

PARTS: dict[str, Callable[[], Any]] = {
    "lifecycle": lifecycle.main,
    "dispatcher": dispatcher.main,
    "watcher": watcher.main,
    "scheduler": scheduler.main,
    "flows": lambda: crawlctl(["host", graph.__name__, managing.__name__]),
}
PAUSE = 0.02
BETWEEN_LOOKS = 0.2
AFTER_A_REFUSAL = 2.0
LAST_WORD_SECONDS = 20
TOLD_TO_END = {signal.SIGTERM}


@dataclass(frozen=True)
class ChildPlan:
    """`notes`: the folder of its deaths and of its faults. `failing`: the activities that fail, or else all.

    `alone`: in an installation of its own, with a dispatcher if `dispatched`. `hosted`: beside a host of steps, whose
    managers have the fault `of_host`."""

    name: str
    part: str
    notes: str
    deaths: list[str] = field(default_factory=list)
    fault: str | None = None
    failing: list[str] = field(default_factory=list)
    alone: bool = False
    dispatched: bool = False
    hosted: bool = False
    of_host: str | None = None
    environment: dict[str, str] = field(default_factory=dict)


def wanted(child: ChildPlan) -> Path:
    """Who has this file is born, and who loses it is told to end. All of them at once would keep each other from ever
    being ready."""
    return Path(f"{child.notes}.wanted")


def write(path: Path, environment: dict[str, str], logs: Path, children: list[ChildPlan]) -> None:
    described = {"environment": environment, "logs": str(logs), "children": [asdict(child) for child in children]}
    path.write_text(json.dumps(described))


class Children:
    def __init__(self, described: dict[str, Any]) -> None:
        self._environment = described["environment"]
        self._logs = Path(described["logs"])
        self._children = [ChildPlan(**child) for child in described["children"]]
        self._living: dict[int, ChildPlan] = {}
        self._unborn: list[tuple[float, ChildPlan]] = []
        self._ending_since: float | None = None
        self._last_look = 0.0

    def run(self) -> None:
        parent = os.getppid()
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        gc.freeze()  # or every child would copy all that is loaded as soon as it looks for garbage
        self._unborn = [(0.0, child) for child in self._children]
        while not self._ending_since or self._living:
            if os.getppid() != parent:
                self._end()
            self._bury()
            self._bear()
            self._retire()
            if self._ending_since and time.monotonic() - self._ending_since > LAST_WORD_SECONDS:
                self._tell_all(signal.SIGKILL)
            time.sleep(PAUSE)

    def _bury(self) -> None:
        while self._living and (found := os.waitpid(-1, os.WNOHANG))[0]:
            child, code = self._living.pop(found[0]), os.waitstatus_to_exitcode(found[1])
            pause = 0.0 if code == -signal.SIGKILL else AFTER_A_REFUSAL
            self._unborn.append((time.monotonic() + pause, child))

    def _bear(self) -> None:
        now = time.monotonic()
        due = [] if self._ending_since else [each for each in self._unborn if each[0] <= now]
        for each in due:
            self._unborn.remove(each)
            if wanted(each[1]).exists():
                self._fork(each[1])
            else:
                self._unborn.append((now + BETWEEN_LOOKS, each[1]))

    def _retire(self) -> None:
        now = time.monotonic()
        if now - self._last_look >= BETWEEN_LOOKS:
            self._last_look = now
            self._tell(signal.SIGTERM, [pid for pid, child in self._living.items() if not wanted(child).exists()])

    def _end(self) -> None:
        self._ending_since = self._ending_since or time.monotonic()
        self._tell_all(signal.SIGTERM)

    def _tell_all(self, number: signal.Signals) -> None:
        self._tell(number, self._living)

    def _tell(self, number: signal.Signals, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _fork(self, child: ChildPlan) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, TOLD_TO_END)  # the child has the handler of its parent until it lives
        pid = os.fork()
        if pid == 0:
            self._live(child)
        self._living[pid] = child
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD_TO_END)

    def _live(self, child: ChildPlan) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD_TO_END)
        os.environ.clear()
        os.environ.update(self._environment | child.environment)
        log = os.open(self._logs / f"{child.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in (1, 2):
            os.dup2(log, number)
        status = 1
        try:
            deaths = Deaths(Path(child.notes), child.deaths)
            fault = Faulty(Fault(child.fault), deaths.folder, child.failing) if child.fault else None
            with hooks.living(child.part, deaths, fault):
                PARTS[child.part]()
        except SystemExit as ended:
            status = int(ended.code or 0)
        finally:
            if status and sys.exc_info()[0]:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(status)  # never up into what the parent was doing


if __name__ == "__main__":
    Children(json.loads(Path(sys.argv[1]).read_text())).run()
