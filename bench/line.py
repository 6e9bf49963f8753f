"""Costs of a long line: a question for a permit, a pass of the dispatcher, and a reading of the limits.

The installation is full, and the line grows. No run changes between two measurements.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from statistics import median
from time import perf_counter
from uuid import uuid4

from bench.databases import Row, on_each
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.limits.rules import Hold
from crawler_lifecycle.model.deployment import Crawler, Deployment
from crawler_lifecycle.model.limits import INSTALLATION
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import RunRef
from crawler_lifecycle.runs.ports import Claim, NewRun
from tests.kit.data.databases import copy_run

MINUTE = timedelta(minutes=1)
CLAIMS_OF_A_PASS = 16


def measure(scale: Scale) -> Table:
    columns = ("runs with a place", "runs in the line", "ms for a permit", "ms for a pass", "ms for the limits")
    return on_each(columns, partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    store = SqlStore(database)
    store.limits.change(INSTALLATION, {"tasks": scale.limit}, "bench")
    begun = 0
    while isinstance(claim := ask(store, waiting := new_run(store)), Claim):
        key = claim.request.key
        store.claims.deployed(claim, Deployment(key=key, job_name="job", job_uid=key, created=True))
        begun += 1
    in_line = 1
    for runs in scale.in_line:
        copy_run(database, waiting.run_id, runs - in_line)
        store.limits.correct_sums()
        in_line = runs
        yield (
            begun,
            runs,
            median_ms(scale, lambda: isinstance(ask(store, waiting), Hold)),
            median_ms(scale, lambda: store.claims.claim_tasks("dispatcher", MINUTE, CLAIMS_OF_A_PASS) == []),
            median_ms(scale, partial(_has_line_of, runs, store)),
        )


def _has_line_of(runs: int, store: SqlStore) -> bool:
    return store.limits.all()[0].runs_held == runs


def new_run(store: SqlStore) -> RunRef:
    entry = Crawler(name="books", command=["true"])
    run = store.runs.create(NewRun(RunRequest(crawler="books"), entry, 1, f"crawl-books-{uuid4()}", str(uuid4())))
    return RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=run.epoch)


def ask(store: SqlStore, run: RunRef) -> Claim | Hold | None:
    return store.claims.claim_main(run, f"supervisor:{run.epoch}", MINUTE)


def median_ms(scale: Scale, act: Callable[[], bool]) -> float:
    """Return the median of the milliseconds. Raise AssertionError if an act returns False."""
    spent = []
    for _ in range(scale.repeats):
        began = perf_counter()
        assert act()
        spent.append((perf_counter() - began) * 1000)
    return median(spent)
