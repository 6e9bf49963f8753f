"""Embedded stacks for benchmarks, and rounds with many runs at once. A round has every party's CPU time."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from temporalio.client import WorkflowHandle

from bench.measuring import cpu_seconds
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.model.records import ALL_RUNS
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.settings import stack_file
from crawler_lifecycle.stack.plan import Ports, StepModules, make_plan
from crawler_lifecycle.stack.stack import Stack, owned

PARTIES = ("server", "worker", "others", "jobs")
PARTY = {"temporal": "server", "lifecycle": "worker"}  # all further parts count as the rest
Cpu = dict[str, float]


@dataclass(frozen=True, slots=True)
class Round:
    """Lifecycles requested at the same moment."""

    seconds: float  # from the first request until the last workflow is closed
    durations: Sequence[float]  # seconds per lifecycle, from the request
    cpu: Cpu  # CPU seconds per lifecycle, by party

    @property
    def per_second(self) -> float:
        return len(self.durations) / self.seconds

    @property
    def engine_cpu(self) -> float:
        """Server's and worker's CPU seconds per lifecycle."""
        return self.cpu["server"] + self.cpu["worker"]


def median_round(rounds: Sequence[Round]) -> Round:
    """Return the rounds' medians, and all durations."""
    cpu = {party: statistics.median(single.cpu[party] for single in rounds) for party in rounds[0].cpu}
    durations = [duration for single in rounds for duration in single.durations]
    per_second = statistics.median(single.per_second for single in rounds)
    return Round(len(durations) / per_second, durations, cpu)


@contextmanager
def planned_stack(catalogue: str, environment: Mapping[str, str], steps: StepModules | None = None) -> Iterator[Stack]:
    """Yield a stack, not yet running, on a temporary folder with this catalogue and these further settings."""
    with TemporaryDirectory(prefix="bench-stack-", ignore_cleanup_errors=True) as folder:
        state, file = Path(folder).resolve() / "state", Path(folder) / "catalogue.toml"
        file.write_text(catalogue)
        with owned(state):
            plan = make_plan(state, Ports.free(), file, steps)
            plan.environment.update(environment)
            yield Stack(plan, refuse_trouble, temporary=True)


async def round_of_runs(control: Control, state: Path, crawler: str, runs: int) -> Round:
    """Start the runs at the same moment, and wait until their workflows are closed. Every run has to complete."""
    before, began = _cpu(state), time.time()
    handles = await start_runs(control, crawler, runs)
    await asyncio.gather(*(control.engine.result(handle) for handle in handles))
    seconds, after = time.time() - began, _cpu(state)
    done = await asyncio.to_thread(control.runs.select, ALL_RUNS, limit=runs)
    assert [run.status for run in done] == [RunStatus.COMPLETED] * runs
    ends = [run.finished_at.timestamp() for run in done if run.finished_at]
    cpu = {party: (after[party] - before[party]) / runs for party in PARTIES}
    return Round(seconds, [end - began for end in ends], cpu)


async def start_runs(control: Control, crawler: str, runs: int) -> list[WorkflowHandle[Any, Any]]:
    request, name = RunRequest(crawler=crawler), f"bench-{time.time_ns()}"
    starts = (control.engine.start(RUN_WORKFLOW, request, f"{name}-{number}", "bench") for number in range(runs))
    return await asyncio.gather(*starts)


def part_of(state: Path, name: str) -> psutil.Process:
    """Return a part's process."""
    stack = stack_file.read(state)
    assert stack is not None
    return next(psutil.Process(part.pid) for part in stack.processes if part.name == name)


def all_cpu(state: Path) -> float:
    """Return the CPU seconds so far of all the stack's processes, and of the benchmark's database server."""
    stack = stack_file.read(state)
    assert stack is not None
    servers = [child for child in psutil.Process().children() if child.name().startswith("mariadb")]
    return sum(map(cpu_seconds, [*(psutil.Process(part.pid) for part in stack.processes), *servers]))


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
