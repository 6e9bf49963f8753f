"""`make chaos`: runs, people and faults by chance, then calm, then the comparison of everything with the truth.

    python -m tests.chaos.soak --seed 7 --minutes 2

What is done is chosen by the seed alone; how long each step of so many processes takes is not.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.stack.interruption import Interrupted, until_interrupted
from tests.chaos.comparison import divergences, left_over, open_workflows, timeline, told
from tests.chaos.flow_comparison import compared_flow, told_flow
from tests.chaos.flow_lives import flow_lives
from tests.chaos.flow_people import LINES, FlowPeople
from tests.chaos.ground import Ground, ground
from tests.chaos.healing import OPEN, Healing
from tests.chaos.lives import lives
from tests.chaos.manager_comparison import compared_manager
from tests.chaos.manager_people import ManagerPeople, manager_lives
from tests.chaos.people import People
from tests.chaos.permits import Permits
from tests.chaos.timeline import FaultTimeline
from tests.kit.data.databases import mariadb_is_installed
from tests.process.stops import command

CAPACITY = 20
PROGRESS_EVERY = 10.0
CALM_PATIENCE = 420.0
AUDIT_EVERY = 10.0
DISAGREES, INTERRUPTED = 1, 130
SHARE_ON_SQLITE = 0.3
FEW = 3


@dataclass
class Soak:
    ground: Ground
    seed: int
    seconds: float

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.people, self.timeline = People(self.ground), FaultTimeline(self.ground)
        self.flow_people = FlowPeople(self.ground)
        self.manager_people = ManagerPeople(self.ground)
        self.healing = Healing(self.ground, self.people)
        self.permits = Permits(self.ground)
        self.calm_took = 0.0

    async def run(self) -> dict[str, list[str]]:
        """Return the divergences by subject."""
        watching = [
            asyncio.create_task(each) for each in (self.healing.watch(), self.permits.watch(), self._progress())
        ]
        try:
            await self._storm()
            problems = await self._calm()
        finally:
            for each in watching:
                each.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        return problems | await self._compare()

    async def _storm(self) -> None:
        began, courses = time.monotonic(), list(lives(self.seed, self.seconds))
        async with asyncio.TaskGroup() as everybody:
            everybody.create_task(self.timeline.storm(self.seed, self.seconds))
            for life in courses:
                everybody.create_task(self.people.live(life, began, began + self.seconds))
            for flow in flow_lives(self.seed, self.seconds):
                everybody.create_task(self.flow_people.live(flow, began, began + self.seconds))
            for manager in manager_lives(self.seed, self.seconds):
                everybody.create_task(self.manager_people.live(manager, began, began + self.seconds))

    async def _calm(self) -> dict[str, list[str]]:
        """All is well again: until every run is over, everybody told, and an audit finds nothing to do."""
        say("calm: everything is there again")
        began = time.monotonic()
        await self.ground.until_whole()
        said = ""
        while time.monotonic() < began + CALM_PATIENCE:
            await self.flow_people.let_end()
            await self.manager_people.let_end()
            await command(self.ground.site, "audit", "--repair")
            if not await self._under_way():
                status, said = await command(self.ground.site, "audit", "--dry-run")
                if status == 0:
                    self.calm_took = time.monotonic() - began
                    return {}
            await asyncio.sleep(AUDIT_EVERY)
        open_ones = await self._under_way()
        return {"calm": [f"after {CALM_PATIENCE:.0f} s are not over: {open_ones}; the audit says: {said.strip()}"]}

    async def _under_way(self) -> list[str]:
        control = self.ground.site.control
        listed = control.runs.select(RunFilter(listed=OPEN, flows=True), limit=1000)
        still_open = [f"run {run.run_id}" for run in listed] + await self.flow_people.under_way()
        still_open += await self.manager_people.under_way()
        return still_open + await open_workflows(await control.engine.client())

    async def _compare(self) -> dict[str, list[str]]:
        found = {}
        for run in self.people.runs.values():
            found[f"run {run.run_id}"] = await asyncio.to_thread(self._of, run)
        of_managers = await asyncio.to_thread(self.manager_people.runs)
        for run in await asyncio.to_thread(self.flow_people.runs) + of_managers:
            found[f"run {run.run_id}"] = await asyncio.to_thread(divergences, self.ground, run)
        for flow_id in self.flow_people.accepted:
            found[f"flow {flow_id}"] = await asyncio.to_thread(self._of_flow, flow_id)
        for flow_id in self.manager_people.accepted:
            found[f"manager {flow_id}"] = await asyncio.to_thread(self._of_manager, flow_id)
        found["requests"] = self.people.refused
        found["permits"] = await asyncio.to_thread(self.permits.problems)
        found["everything"] = await left_over(self.ground, list(self.people.runs))
        return {what: problems for what, problems in found.items() if problems}

    def _of(self, run: Started) -> list[str]:
        events = Counter(line.event for line in self.ground.site.details(run).log)
        return divergences(self.ground, run) + self.people.broken_promises(run, events)

    def _of_manager(self, flow_id: str) -> list[str]:
        return compared_manager(self.manager_people.seen(flow_id))

    def _of_flow(self, flow_id: str) -> list[str]:
        people = self.flow_people
        seen = told_flow(self.ground.site.control, self.ground.steps, flow_id, people.items[flow_id])
        broken = [
            f"`{deed}` was accepted, and its timeline has none"
            for deed, event in LINES.items()
            if people.accepted[flow_id][deed] and not seen.events[event]
        ]
        return compared_flow(seen) + broken

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            present = ", ".join(self.timeline.present) or "none"
            counted = await asyncio.to_thread(self._counted)
            faults = len(self.timeline.passed)
            say(f"{time.monotonic() - self.began:5.0f} s  {counted}, {faults} faults, now: {present}")

    def _counted(self) -> str:
        try:
            still = [run.run_id for run in self.ground.site.control.runs.select(RunFilter(listed=OPEN), limit=1000)]
        except LifecycleError:
            return f"{len(self.people.runs)} runs (the database does not answer)"
        few = f" ({', '.join(map(str, still))})" if 0 < len(still) <= FEW else ""
        return f"{len(self.people.runs)} runs, {len(still)} not over{few}"

    def figures(self, found: int) -> str:
        runs = self.people.runs.values()
        ends = sum(self.ground.site.details(run).run.end_number for run in runs)
        faults = Counter(each.fault for each in self.timeline.passed)
        times = self.healing.times(self.timeline.passed)
        median = statistics.median(seconds for seconds, _ in times) if times else 0.0
        worst = f"worst {times[-1][0]:.1f} s (run {times[-1][1]}) of {len(times)}" if times else "nothing was wrong"
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))
        flows, managers = len(self.flow_people.accepted), len(self.manager_people.accepted)
        return (
            f"seed {self.seed}: {len(runs)} runs, {flows} flows, {managers} managers, {ends} ends, "
            f"{faults.total()} faults ({kinds}), {found} divergences, "
            f"at most {self.permits.held} runs held, time to heal median {median:.1f} s, {worst}, "
            f"calm after {self.calm_took:.0f} s"
        )


async def soak(asked: argparse.Namespace, folder: Path) -> int:
    async with ground(folder, on_mariadb=asked.on_mariadb, capacity=CAPACITY) as made:
        if not made.disk.is_small:
            say("no file system may be mounted here: the disk is never full")
        going_on = Soak(made, asked.seed, asked.minutes * 60)
        try:
            found = await going_on.run()
            _tell(going_on, found)
        finally:
            if asked.keep:
                shutil.copytree(folder, asked.keep, dirs_exist_ok=True)
        return DISAGREES if found else 0


def _tell(done: Soak, found: Mapping[str, list[str]]) -> None:
    by_id = {f"run {run.run_id}": run for run in done.people.runs.values()}
    for what, problems in found.items():
        say(f"DIVERGENCE (seed {done.seed}) {what}: " + "; ".join(problems))
        if what in by_id:
            say("\n".join(timeline(told(done.ground, by_id[what]))))
        kind, _, name = what.partition(" ")
        if kind in ("flow", "manager"):
            lines = done.ground.site.control.flows.lines(name)
            say("\n".join(f"  {line.at:%H:%M:%S.%f} {line.event}: {line.message}" for line in lines))
    say(done.figures(len(found)))


def say(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="default: another one every time")
    parser.add_argument("--minutes", type=float, default=2.0, help="of faults; then everything may end")
    parser.add_argument("--database", choices=("mariadb", "sqlite", "any"), default="mariadb", help="any: by the seed")
    parser.add_argument("--keep", type=Path, help="folder for what is left of it: logs, databases, records")
    asked = parser.parse_args(arguments)
    asked.seed = SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    asked.on_mariadb = _on_mariadb(asked.seed, asked.database)
    quietly = TelemetryFilter(core_level="ERROR", other_level="ERROR")  # a line for each try, otherwise
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=quietly))))
    say(f"seed {asked.seed}, {asked.minutes:g} minutes, on {'MariaDB' if asked.on_mariadb else 'SQLite'}")
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            return asyncio.run(_until_interrupted(asked, Path(folder) / "chaos"))
        except Interrupted:
            return INTERRUPTED


def _on_mariadb(seed: int, said: str) -> bool:
    if said == "any":
        return mariadb_is_installed() and Random(f"{seed}:database").random() >= SHARE_ON_SQLITE
    if said == "mariadb" and not mariadb_is_installed():
        sys.exit("no mariadbd on this machine (Debian's package is mariadb-server); or --database sqlite")
    return said == "mariadb"


async def _until_interrupted(asked: argparse.Namespace, folder: Path) -> int:
    return await until_interrupted(soak(asked, folder), lambda: None)


if __name__ == "__main__":
    raise SystemExit(main())
