"""Short runs per second through all stages on the embedded stack, and its processes' CPU time.

Three kinds of rows: real local jobs, jobs faked at the port `Cluster`, and the floor in a faked run's shape.
"""

import asyncio
import statistics
from collections.abc import Mapping, Sequence

from bench.databases import AS_INSTALLED
from bench.embedded import PARTIES, Round, median_round, part_of, planned_stack, round_of_runs, start_runs
from bench.faked_part import faked_jobs
from bench.floor.bare import Step
from bench.floor.rounds import Floor, floor
from bench.floor.shape import activities_in, shape_of
from bench.table import Scale, Table
from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.stack.stack import Stack
from tests.kit.data.databases import create_database, mariadb_is_installed, running_mariadb

CATALOGUE = '[crawlers.nothing]\ncommand = ["true"]\n[crawlers.second]\ncommand = ["sleep", "1"]\n'
PATIENCE = 600.0
COLUMNS = (
    "",
    "runs at once",
    "lifecycles/s",
    "median s of a run",
    "longest s of a run",
    *(f"{party} CPU s a run" for party in PARTIES),
    "times the floor's CPU",
    "times the floor's lifecycles/s",
)
Row = tuple[object, ...]


def measure(scale: Scale) -> Table:
    rows = [*_real_rows(scale), *_faked_rows("SQLite", {}, scale)]
    if mariadb_is_installed():
        with running_mariadb(*AS_INSTALLED) as port:
            rows += _faked_rows("MariaDB", {"CRAWLER_DATABASE__URL": create_database(port, "bench")}, scale)
    return Table(COLUMNS, rows)


def _real_rows(scale: Scale) -> list[Row]:
    with planned_stack(CATALOGUE, _room(scale)) as stack:
        return asyncio.run(_measure_real(stack, scale))


def _faked_rows(database: str, settings: Mapping[str, str], scale: Scale) -> list[Row]:
    with planned_stack(CATALOGUE, {**_room(scale), **settings}) as stack, faked_jobs():
        return asyncio.run(_measure_faked(stack, database, scale))


def _room(scale: Scale) -> dict[str, str]:
    """Return settings with a place for every job, so that no queue for places is measured."""
    return {"CRAWLER_CLUSTER__CAPACITY": str(scale.runs)}


async def _measure_real(stack: Stack, scale: Scale) -> list[Row]:
    state = stack.plan.state
    async with stack.running() as control, asyncio.timeout(PATIENCE):
        await round_of_runs(control, state, "nothing", 1)  # loads modules and connections for all later runs
        at_once = [(runs, await round_of_runs(control, state, "nothing", runs)) for runs in (1, scale.runs)]
        seconds = [await round_of_runs(control, state, "second", 1) for _ in range(scale.latencies)]
    rows = [_row("jobs that end at once", runs, measured) for runs, measured in at_once]
    return [*rows, _row(f"{len(seconds)} jobs of a second, one by one", 1, median_round(seconds))]


async def _measure_faked(stack: Stack, database: str, scale: Scale) -> list[Row]:
    """Measure runs and floor in turn, so that a busy moment affects both."""
    async with (
        stack.running() as control,
        asyncio.timeout(PATIENCE),
        floor(stack.plan.environment, part_of(stack.plan.state, "temporal")) as bare,
    ):
        await round_of_runs(control, stack.plan.state, "nothing", 1)
        steps = await _shape_of_a_run(control)
        rounds = [await _both(stack, control, bare, steps, scale.runs) for _ in range(scale.rounds)]
    ours, floors = (median_round(kind) for kind in zip(*rounds, strict=True))
    label = f"floor: {activities_in(steps)} no-op activities"
    return [_row(f"faked jobs, {database}", scale.runs, ours, floors), _row(label, scale.runs, floors, floors)]


async def _shape_of_a_run(control: Control) -> list[Step]:
    """Return a lone run's steps: beside further runs, its timers would contain the waits for a busy worker."""
    (handle,) = await start_runs(control, "nothing", 1)
    await control.engine.result(handle)
    return shape_of((await handle.fetch_history()).events)


async def _both(stack: Stack, control: Control, bare: Floor, steps: list[Step], runs: int) -> tuple[Round, Round]:
    return await round_of_runs(control, stack.plan.state, "nothing", runs), await bare.round(steps, runs)


def _row(what: str, runs: int, measured: Round, floors: Round | None = None) -> Row:
    durations = statistics.median(measured.durations), max(measured.durations)
    spent = [measured.cpu.get(party, "-") for party in PARTIES]
    ratios: Sequence[object] = ("-", "-")
    if floors:
        ratios = measured.engine_cpu / floors.engine_cpu, measured.per_second / floors.per_second
    return what, runs, measured.per_second, *durations, *spent, *ratios
