"""Hosts for the managers' benchmark: managers with faked runs on a host in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import manager_steps
from bench.manager_crowds import Crowd
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.flows.model.definition import CallForm, FlowDefinition, MemberDefinition, StepWork
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.hosts.supervised import planned
from tests.kit.data.flows import Flow

AT_ONCE = 200  # jobs of a manager under way
GATE = "gate"  # file
Row = tuple[object, ...]


@dataclass
class Hosted:
    """Managers on a host in its own process, with faked runs on their own database."""

    folder: Path
    url: str
    database: Database
    process: subprocess.Popen[bytes]
    crowd: Crowd
    kills: int = 0

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def watch(self, seconds: float) -> float:
        return self.crowd.watch(lambda: self.has_ended, seconds)

    def kill(self) -> None:
        """Kill the host, and let another host follow at once."""
        self.process.kill()
        self.process.wait()
        self.process = _started(self.folder, self.url)
        self.crowd.follow(self.process.pid)
        self.kills += 1

    def figures(self, took: float, jobs: int) -> Row:
        """Return the columns from the time to the largest object's memory. A killed host has no statements."""
        crowd, figures = self.crowd, self.folder / "figures.json"
        is_whole = figures.exists() and not self.kills
        statements = json.loads(figures.read_text())["statements"] / max(jobs, 1) if is_whole else "-"
        return (took, jobs / took, 1000 * crowd.cpu / max(jobs, 1), statements, crowd.host_mib, crowd.largest_mib)


@contextmanager
def hosted(
    given: Sequence[tuple[str, type, int]],
    prepare: Callable[[Database, Flow], None] | None = None,
    url: str | None = None,
) -> Iterator[Hosted]:
    """Host managers, given by name, class and number of sets. `prepare`: stores more about a flow before.

    `url`: of an empty database; default: SQLite.
    """
    with TemporaryDirectory(prefix="bench-manager-") as name:
        folder, url = Path(name), url or f"sqlite:///{name}/crawler.db"
        upgrade(url)
        database = Database(url)
        flows = [_pushed(database, manager, sets, title, folder / GATE) for title, manager, sets in given]
        if prepare is not None:
            for flow in flows:
                prepare(database, flow)
        (folder / "steps.json").write_text("\n".join(planned(flow)[1][0].model_dump_json() for flow in flows))
        process = _started(folder, url)
        running = Hosted(folder, url, database, process, Crowd(process.pid))
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()
            database.close()


def definition(manager: type, name: str, *arguments: str) -> FlowDefinition:
    work = StepWork(
        function=f"{manager.__module__}:{manager.__name__}", form=CallForm.MANAGER, arguments=list(arguments)
    )
    members = (MemberDefinition(path="manager", work=work),)
    return FlowDefinition(id=f"bench/{name}", name=name, family="bench", members=members)


def _started(folder: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "bench.manager_host", url, str(folder / "steps.json")]
    with (folder / "host.log").open("ab") as log:
        return subprocess.Popen([*command, str(folder / "figures.json")], stdout=log, stderr=log)


def _pushed(database: Database, manager: type, sets: int, name: str, gate: Path) -> Flow:
    gates = ("--gate", str(gate)) if manager is manager_steps.Gated else ()
    given = definition(manager, name, "--sets", str(sets), "--max-running-jobs", str(AT_ONCE), *gates)
    store = SqlStore(database)
    answer = store.flow_doors.push(PushFlow(definition=given))
    return Flow(store, answer.flow_id, answer.flow_uid)
