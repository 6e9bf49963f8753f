"""Costs of admission beside running runs: a permit, many starts at once, a pass, and a scrape.

Each open run has its permit and a job, and no task waits.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from time import perf_counter

from bench.databases import Row, on_each
from bench.line import CLAIMS_OF_A_PASS, MINUTE, ask, copy_run, median_ms, new_run
from bench.table import Scale, Table
from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.contract.deployment import Deployment
from crawler_lifecycle.contract.limits import INSTALLATION
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.ports import Claim

CALLERS = 16  # fewer than the connections of a process
MANY = 1_000_000


def measure(scale: Scale) -> Table:
    columns = ("open runs", "ms for a permit", "starts a second", "ms for a pass with a task", "ms for the limits")
    return on_each(columns, partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    store = SqlStore(database)
    store.limits.change(INSTALLATION, {"tasks": MANY}, "bench")
    running = _running(store)
    begun = 1
    for runs in scale.running:
        copy_run(database, running.run_id, runs - begun)
        store.limits.correct_sums()
        begun = runs
        alone = [new_run(store) for _ in range(scale.repeats)]
        ms = median([_ms(partial(_begin, store, run)) for run in alone])
        rate = _starts_a_second(store, [new_run(store) for _ in range(scale.starts)])
        pass_ms = median([_pass_ms(store) for _ in range(scale.repeats)])
        begun += 2 * scale.repeats + scale.starts
        limits_ms = median_ms(scale, partial(_has_begun, store, begun))
        yield runs, ms, rate, pass_ms, limits_ms


def _running(store: SqlStore) -> RunRef:
    """Return a run with a running main job."""
    run = new_run(store)
    claim = ask(store, run)
    assert isinstance(claim, Claim)
    key = claim.request.key
    store.claims.deployed(claim, Deployment(key=key, job_name="job", job_uid=key, created=True))
    store.runs.mark_started(run)
    return run


def _starts_a_second(store: SqlStore, runs: list[RunRef]) -> float:
    began = perf_counter()
    with ThreadPoolExecutor(CALLERS) as callers:
        claims = list(callers.map(partial(ask, store), runs))
    assert all(isinstance(claim, Claim) for claim in claims)
    return len(runs) / (perf_counter() - began)


def _begin(store: SqlStore, run: RunRef) -> None:
    assert isinstance(ask(store, run), Claim)


def _pass_ms(store: SqlStore) -> float:
    """Return the milliseconds for a pass with a run in the line."""
    store.limits.pause(INSTALLATION, "a benchmark", "bench")
    run = new_run(store)
    ask(store, run)
    store.limits.resume(INSTALLATION, "bench")
    return _ms(partial(_begin_by_a_pass, store, run))


def _begin_by_a_pass(store: SqlStore, run: RunRef) -> None:
    claims = store.claims.claim_tasks(f"dispatcher of {run.run_id}", 1440 * MINUTE, CLAIMS_OF_A_PASS)
    assert [claim.run_id for claim in claims] == [run.run_id]


def _has_begun(store: SqlStore, runs: int) -> bool:
    return store.limits.all()[0].runs_begun == runs


def _ms(act: Callable[[], None]) -> float:
    began = perf_counter()
    act()
    return (perf_counter() - began) * 1000
