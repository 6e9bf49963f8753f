"""Tables of figures, and their places in docs/internals/benchmarks.md."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes for the benchmarks. The defaults give figures to trust; `QUICK` only proves that a benchmark works."""

    tasks: tuple[int, ...] = (1_000, 10_000)
    jobs: tuple[int, ...] = (1_000, 10_000)
    runs: int = 60  # lifecycles at once
    rounds: int = 3  # rounds of lifecycles and of their floor, in turn
    latencies: int = 8  # runs of a job of one second, in a row
    stopped: tuple[int, ...] = (1, 100, 1_000)  # tasks of a stopped run
    noticed: int = 20  # tasks that end one by one
    repeats: int = 10
    archive_mb: int = 2_000
    huge_gb: int = 20
    small_files: int = 200_000
    in_flight: tuple[int, ...] = (8, 32)  # deployments at once
    deployed: int = 500
    watched: tuple[int, ...] = (4, 100)  # tasks in a run with timed changes
    changes: int = 10
    supervised: int = 100  # runs at once; doubled until looks fall behind
    most_supervised: int = 1_600
    audited: tuple[int, ...] = (1_000, 100_000)  # open runs
    in_line: tuple[int, ...] = (100, 1_000, 10_000)  # runs that wait for their permit
    open_runs: tuple[int, ...] = (1_000, 3_000, 10_000, 100_000)
    starts: int = 2_000  # at once, beside open runs
    listed_runs: int = 100_000
    crawled: int = 500_000  # runs of 200 crawlers
    retained: int = 100_000  # ended runs
    leaving: int = 2_000  # runs that become old in a round
    retention_rounds: int = 3
    big_run: int = 10_000  # tasks of a run beside a small run
    two_level_runs: int = 300
    chain: int = 50  # steps in a row
    fan: int = 1_000  # steps of a flow, side by side
    large_flow: int = 10_000
    idle_flows: int = 1_000  # flows that wait for a person
    flows_at_once: int = 1_000
    crawls_of_a_flow: int = 10_000
    rounds_of_flows: int = 9  # graphs and their floors, in turn
    manager_sets: int = 1_000_000  # parameter sets of a manager, half of them repeated, with faked runs
    manager_seconds: float = 7_200.0  # at most, for each manager with faked runs
    kill_seconds: float = 180.0  # between the kills of a manager with a cursor
    managed_jobs: int = 30  # real crawls of a manager, in a row
    idle_managers: int = 50
    ends_at_once: int = 100_000  # ends without a reaction at a host's start
    managers_at_once: int = 200  # managers at work on a host
    row: str = ""  # of the managers' table: only rows with this text in their names
    limit: int = 200  # for tasks in the cluster, beside two-level runs and crawls of a graph


QUICK = Scale(
    tasks=(10, 200),
    jobs=(10, 100),
    runs=4,
    rounds=1,
    latencies=2,
    stopped=(1, 8),
    noticed=3,
    archive_mb=20,
    huge_gb=1,
    small_files=200,
    repeats=2,
    in_flight=(1, 4),
    deployed=20,
    watched=(2,),
    changes=3,
    supervised=3,
    most_supervised=6,
    audited=(20,),
    in_line=(5, 40),
    open_runs=(20, 60),
    starts=10,
    listed_runs=100,
    crawled=4_000,
    retained=400,
    leaving=100,
    retention_rounds=2,
    big_run=200,
    two_level_runs=12,
    chain=5,
    fan=20,
    large_flow=100,
    idle_flows=5,
    flows_at_once=10,
    crawls_of_a_flow=100,
    rounds_of_flows=2,
    manager_sets=400,
    manager_seconds=120.0,
    kill_seconds=5.0,
    managed_jobs=2,
    idle_managers=2,
    ends_at_once=300,
    managers_at_once=3,
    limit=8,
)


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    @property
    def markdown(self) -> str:
        numeric = [isinstance(value, int | float) for value in self.rows[-1]]
        rule = ["---:" if right else "---" for right in numeric]
        lines = [self.columns, rule, *([_cell(value) for value in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    """Return the figure with three digits, since no measurement here is more exact."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def written_into(document: str, name: str, text: str) -> str:
    """Return the document with the text between the markers of the given name."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- end:{name} -->"
    between = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    new, count = between.subn(lambda marks: f"{marks[1]}{text}\n{marks[2]}", document)
    if count != 1:
        raise ValueError(f"expected the markers {begin} and {end} once, count them {count} times")
    return new
