"""Short runs per second through all stages on the embedded stack, and the CPU time of its processes."""

import asyncio
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.measuring import cpu_seconds
from bench.table import Scale, Table
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.control import stack_file
from crawler_lifecycle.control.control import Control
from crawler_lifecycle.domain.naming import RUN_WORKFLOW
from crawler_lifecycle.services.embedded.addresses import Ports
from crawler_lifecycle.services.embedded.plan import make_plan
from crawler_lifecycle.services.embedded.stack import Stack, owned

CATALOGUE = '[crawlers.nothing]\ncommand = ["true"]\n'
PATIENCE = 120.0
PARTIES = ("server", "worker", "others", "jobs")
PARTY = {"temporal": "server", "lifecycle": "worker"}  # all further parts count as the rest
Cpu = dict[str, float]


def measure(scale: Scale) -> Table:
    per_run = (f"{party} CPU s a run" for party in PARTIES)
    columns = ("runs at once", "lifecycles/s", "median s of a run", "longest s of a run", *per_run)
    with TemporaryDirectory(prefix="bench-stack-", ignore_cleanup_errors=True) as folder:
        state, catalogue = Path(folder).resolve() / "state", Path(folder) / "catalogue.toml"
        catalogue.write_text(CATALOGUE)
        with owned(state):
            plan = make_plan(state, Ports.free(), catalogue)
            # a place for every job, so that no queue for places is measured
            plan.environment["CRAWLER_CLUSTER__CAPACITY"] = str(scale.runs)
            stack = Stack(plan, refuse_trouble, temporary=True)
            return Table(columns, asyncio.run(_rows(stack, scale.runs)))


async def _rows(stack: Stack, most: int) -> list[tuple[object, ...]]:
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        await _run(control, 1)  # the first run loads modules and connections for all later runs
        return [await _row(control, stack.plan.state, runs) for runs in (1, most)]


async def _row(control: Control, state: Path, runs: int) -> tuple[object, ...]:
    before = _cpu(state)
    took, durations = await _run(control, runs)
    after = _cpu(state)
    spent = [(after[party] - before[party]) / runs for party in PARTIES]
    return runs, runs / took, statistics.median(durations), max(durations), *spent


async def _run(control: Control, runs: int) -> tuple[float, list[float]]:
    """Return the seconds from the first request to the end of the last run, and the seconds of every run."""
    request = RunRequest(crawler="nothing")
    began = time.time()
    starts = (control.engine.start(RUN_WORKFLOW, request, f"bench-{began}-{number}", "bench") for number in range(runs))
    handles = await asyncio.gather(*starts)
    await asyncio.gather(*(control.engine.result(handle) for handle in handles))
    done = await asyncio.to_thread(control.runs.list, limit=runs)
    assert [run.status for run in done] == [RunStatus.COMPLETED] * runs
    ends = [run.finished_at.timestamp() for run in done if run.finished_at]
    return max(ends) - began, [end - run.created_at.timestamp() for end, run in zip(ends, done, strict=True)]


def _cpu(state: Path) -> Cpu:
    """Return the CPU seconds so far. Jobs and their runners are children of the scheduler service."""
    stack = stack_file.read(state)
    assert stack is not None
    spent = dict.fromkeys(PARTIES, 0.0)
    for part in stack.processes:
        process = psutil.Process(part.pid)
        spent[PARTY.get(part.name, "others")] += cpu_seconds(process)
        if part.name == "scheduler":
            spent["jobs"] += cpu_seconds(process, children=True)
    return spent


def refuse_trouble(line: str) -> None:
    raise AssertionError(f"the stack is in trouble, its figures mean nothing: {line}")
