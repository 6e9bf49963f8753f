"""Costs of a long line: a question for a permit, a pass of the dispatcher, and a reading of the limits.

The installation is full, and the line grows. No run changes between two measurements.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from statistics import median
from time import perf_counter
from uuid import uuid4

from sqlalchemy import insert, select

from bench.databases import Row, on_each
from bench.table import Scale, Table
from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.schema import histories, task_histories
from crawler_lifecycle.adapters.sql.store import SqlStore
from crawler_lifecycle.contract.deployment import Crawler, Deployment
from crawler_lifecycle.contract.limits import INSTALLATION
from crawler_lifecycle.contract.requests import RunRequest
from crawler_lifecycle.contract.steps.run import RunRef
from crawler_lifecycle.domain.admission import Hold
from crawler_lifecycle.ports import Claim, NewRun

MINUTE = timedelta(minutes=1)
CLAIMS_OF_A_PASS = 16
ROWS = 1000


def measure(scale: Scale) -> Table:
    columns = ("runs with a place", "runs in the line", "ms for a permit", "ms for a pass", "ms for the limits")
    return on_each(columns, partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    store = SqlStore(database)
    store.limits.change(INSTALLATION, {"tasks": scale.limit}, "bench")
    begun = 0
    while isinstance(claim := _ask(store, waiting := _new_run(store)), Claim):
        key = claim.request.key
        store.claims.deployed(claim, Deployment(key=key, job_name="job", job_uid=key, created=True))
        begun += 1
    in_line = 1
    for runs in scale.in_line:
        _copy(database, waiting.run_id, runs - in_line)
        in_line = runs
        yield (
            begun,
            runs,
            _median_ms(scale, lambda: isinstance(_ask(store, waiting), Hold)),
            _median_ms(scale, lambda: store.claims.claim_tasks("dispatcher", MINUTE, CLAIMS_OF_A_PASS) == []),
            _median_ms(scale, partial(_has_line_of, runs, store)),
        )


def _has_line_of(runs: int, store: SqlStore) -> bool:
    return store.limits.all()[0].runs_held == runs


def _new_run(store: SqlStore) -> RunRef:
    entry = Crawler(name="books", command=["true"])
    run = store.runs.create(NewRun(RunRequest(crawler="books"), entry, 1, f"crawl-books-{uuid4()}", str(uuid4())))
    return RunRef(run_id=run.run_id, run_uid=run.run_uid, epoch=run.epoch)


def _ask(store: SqlStore, run: RunRef) -> Claim | Hold | None:
    return store.claims.claim_main(run, f"supervisor:{run.epoch}", MINUTE)


def _copy(database: Database, run_id: int, copies: int) -> None:
    """Copy a waiting run with its task many times."""
    with database.read() as connection:
        run = connection.execute(select(histories).where(histories.c.id == run_id)).one()._asdict()
        task = connection.execute(select(task_histories).where(task_histories.c.history_id == run_id)).one()._asdict()
    for start in range(0, copies, ROWS):
        runs = [run | _ids() for _ in range(min(ROWS, copies - start))]
        with database.transaction() as connection:
            last = connection.scalar(select(histories.c.id).order_by(histories.c.id.desc()).limit(1)) or 0
            numbered = [copy | {"id": last + number} for number, copy in enumerate(runs, 1)]
            connection.execute(insert(histories), numbered)
            connection.execute(insert(task_histories), [task | {"history_id": copy["id"]} for copy in numbered])


def _ids() -> dict[str, object]:
    workflow_id = f"crawl-books-{uuid4()}"
    ids = {"workflow_id": workflow_id, "supervisor_workflow_id": workflow_id, "first_execution_run_id": str(uuid4())}
    return {**ids, "run_uid": str(uuid4())}


def _median_ms(scale: Scale, act: Callable[[], bool]) -> float:
    """Return the median of the milliseconds. Raise AssertionError if an act returns False."""
    spent = []
    for _ in range(scale.repeats):
        began = perf_counter()
        assert act()
        spent.append((perf_counter() - began) * 1000)
    return median(spent)
