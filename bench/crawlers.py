"""Time for the page of crawlers, and for a list of runs by outcome and by label, beside many runs that are over."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from statistics import median
from time import perf_counter
from uuid import uuid4

from sqlalchemy import insert, select

from bench.databases import Row, on_each
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories, history_labels, task_histories
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import RunStatus
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import ref_to

CRAWLERS = 200
BANNED_EVERY = 97  # every 97th run has another outcome than `finished`, and an own label
RARE, LABEL = "banned", "site:rare.example"
ROWS = 2000


def measure(scale: Scale) -> Table:
    columns = ("runs", "crawlers", "ms for all crawlers", "ms for an outcome", "ms for a label")
    return on_each(columns, partial(_rows, scale))


def _rows(scale: Scale, database: Database) -> Iterator[Row]:
    store = SqlStore(database)
    names = [f"crawler-{number:03}" for number in range(CRAWLERS)]
    _fill(database, names, scale.crawled)
    yield (
        scale.crawled,
        CRAWLERS,
        _median_ms(scale, lambda: all(len(crawler.ends) == 10 for crawler in store.records.by_crawler(names))),
        _median_ms(scale, lambda: store.records.page(RunFilter(outcome=RARE), limit=50)),
        _median_ms(scale, lambda: store.records.page(RunFilter(label=LABEL), limit=50)),
    )


def _fill(database: Database, names: list[str], runs: int) -> None:
    """Copy a run that is over, with its task, for all crawlers in turn."""
    store = SqlStore(database)
    new = NewRun(RunRequest(crawler=names[0]), Crawler(name=names[0]), 1, f"crawl-{uuid4()}", str(uuid4()))
    run = store.runs.mark_started(ref_to(store.runs.create(new)))
    end_tasks(database, run, [None])
    store.runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
    with database.read() as connection:
        row = connection.execute(select(histories).where(histories.c.id == run.run_id)).one()
        task = connection.execute(select(task_histories).where(task_histories.c.history_id == run.run_id)).one()
    like, like_task = dict(row._mapping), dict(task._mapping)
    numbers = iter(range(run.run_id + 1, run.run_id + runs))
    while page := list(islice(numbers, ROWS)):
        rare = [number for number in page if number % BANNED_EVERY == 0]
        with database.transaction() as connection:
            connection.execute(insert(histories), [_copy(like, number, names) for number in page])
            connection.execute(insert(task_histories), [like_task | {"history_id": number} for number in page])
            if rare:
                connection.execute(insert(history_labels), [{"history_id": number, "label": LABEL} for number in rare])


def _copy(like: dict[str, object], number: int, names: list[str]) -> dict[str, object]:
    workflow_id, created_at = f"crawl-{uuid4()}", like["created_at"]
    assert isinstance(created_at, datetime)
    return like | {
        "id": number,
        "crawler": names[number % len(names)],
        "outcome": RARE if number % BANNED_EVERY == 0 else "finished",
        "created_at": created_at + timedelta(seconds=number),
        "run_uid": str(uuid4()),
        "workflow_id": workflow_id,
        "supervisor_workflow_id": workflow_id,
        "first_execution_run_id": str(uuid4()),
    }


def _median_ms(scale: Scale, read: Callable[[], object]) -> float:
    times = []
    for _ in range(scale.repeats):
        began = perf_counter()
        assert read()
        times.append(1000 * (perf_counter() - began))
    return round(median(times), 1)
