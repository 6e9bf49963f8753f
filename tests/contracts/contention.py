"""Acts at once on MariaDB, and the contentions among them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Barrier
from typing import Any

from sqlalchemy import event

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound

EXPECTED = (BadInput, Conflict, Fenced, NotFound)  # an act may come too late for the other act
DEADLOCK, TIMEOUT = 1213, 1205
Act = Callable[[], object]


def run_at_once(*acts: Act) -> None:
    barrier = Barrier(len(acts))

    def run(act: Act) -> None:
        barrier.wait()
        with suppress(*EXPECTED):
            act()

    with ThreadPoolExecutor(len(acts)) as pool:
        for future in [pool.submit(run, act) for act in acts]:
            future.result()


@contextmanager
def noted(database: Database) -> Iterator[list[int]]:
    """Note the numbers of deadlocks and of locks in vain during the block."""
    contentions: list[int] = []

    def note(context: Any) -> None:
        code = context.original_exception.args[0]
        if code in (DEADLOCK, TIMEOUT):
            contentions.append(code)

    event.listen(database.engine, "handle_error", note)
    try:
        yield contentions
    finally:
        event.remove(database.engine, "handle_error", note)
