"""Starts beside running runs: starts of several workers at once, and the costs of a pass and of the limits."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from functools import cache, partial
from multiprocessing import get_context
from time import perf_counter
from uuid import uuid4

from bench.databases import Row, on_each
from bench.line import ask, median_ms, new_run
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.model.deployment import Deployment
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.runs.ports import Claim
from tests.kit.data.databases import copy_run

WORKERS = 4  # processes
CALLERS = 4  # threads of a worker
NO_LIMIT = 1_000_000
LASTING = timedelta(hours=1)  # a later pass would take the run of an expired claim again


def measure(scale: Scale) -> Table:
    columns = ("open runs", "starts at once", "starts/s", "ms for a start alone", "ms for a pass", "ms for the limits")
    return on_each(columns, partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    store = SqlStore(database)
    store.limits.change(INSTALLATION, {"tasks": NO_LIMIT}, "bench")
    running, open_runs = new_run(store), 1
    _begin(store, running)
    url = database.engine.url.render_as_string(hide_password=False)
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as workers:
        assert all(workers.map(partial(_begin_all, url), [[]] * WORKERS))  # the processes have started
        yield from _sizes(scale, database, store, running, open_runs, partial(_started, workers, url))


def _started(workers: ProcessPoolExecutor, url: str, starts: Sequence[RunRef]) -> float:
    """Start the runs in the workers. Return the seconds until the last start has ended."""
    began = perf_counter()
    assert all(workers.map(partial(_begin_all, url), [starts[number::WORKERS] for number in range(WORKERS)]))
    return perf_counter() - began


def _begin_all(url: str, starts: Sequence[RunRef]) -> bool:
    store = _store(url)
    with ThreadPoolExecutor(CALLERS) as pool:
        return all(pool.map(partial(_begin, store), starts))


@cache
def _store(url: str) -> SqlStore:
    return SqlStore(Database(url))


def _sizes(
    scale: Scale,
    database: Database,
    store: SqlStore,
    running: RunRef,
    open_runs: int,
    started: Callable[[Sequence[RunRef]], float],
) -> Iterator[Row]:
    for size in scale.open_runs:
        copy_run(database, running.run_id, max(0, size - open_runs))
        store.limits.correct_sums()
        starts = [new_run(store) for _ in range(scale.starts)]
        seconds = started(starts)
        open_runs = max(size, open_runs) + len(starts)
        assert store.limits.all()[0].runs_begun == open_runs
        alone = iter([new_run(store) for _ in range(scale.repeats)])
        yield (
            size,
            len(starts),
            len(starts) / seconds,
            median_ms(scale, lambda runs=alone: _begin(store, next(runs))),  # type: ignore[misc]
            _ms_for_passes(scale, store),
            median_ms(scale, lambda: store.limits.all() != []),
        )
        open_runs += 2 * scale.repeats


def _begin(store: SqlStore, run: RunRef) -> bool:
    """Admit the run and store its job, as a worker does."""
    claim = ask(store, run)
    if not isinstance(claim, Claim):
        return False
    key = claim.request.key
    store.claims.deployed(claim, Deployment(key=key, job_name="job", job_uid=key, created=True))
    return True


def _ms_for_passes(scale: Scale, store: SqlStore) -> float:
    """Measure passes that each admit a run from the line."""
    waiting = [new_run(store) for _ in range(scale.repeats)]
    store.limits.pause(INSTALLATION, "bench", "bench")
    for run in waiting:
        ask(store, run)
    store.limits.resume(INSTALLATION, "bench")
    # each pass is another dispatcher's: the same one would take its own claims again
    return median_ms(scale, lambda: len(store.claims.claim_tasks(str(uuid4()), LASTING, 1)) == 1)
