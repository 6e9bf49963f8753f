"""Acts at once on MariaDB, and the contentions among them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Barrier
from typing import Any, Protocol, TypeVar

from sqlalchemy import event

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, NotFound

EXPECTED = (BadInput, Conflict, Fenced, NotFound)  # an act may come too late for the other act
DEADLOCK, TIMEOUT = 1213, 1205
Act = Callable[[], object]


class Revived(Protocol):
    def revive(self) -> None:
        """Let further acts be possible after a round."""


World = TypeVar("World", bound=Revived)


def run_at_once(*acts: Act) -> None:
    barrier = Barrier(len(acts))

    def run(act: Act) -> None:
        barrier.wait()
        with suppress(*EXPECTED):
            act()

    with ThreadPoolExecutor(len(acts)) as pool:
        for future in [pool.submit(run, act) for act in acts]:
            future.result()


def contended_pairs(
    database: Database,
    first: Callable[[World], Act],
    acts: Sequence[Callable[[World], Act]],
    world: World,
    rounds: int = 1,
) -> list[str]:
    """Run the act at once with itself and each later act, each twice. Return the contentions by the other act."""
    contended: list[str] = []
    for second in itertools.dropwhile(lambda act: act is not first, acts):
        with noted(database) as contentions:
            for _ in range(rounds):
                run_at_once(first(world), second(world), first(world), second(world))
                world.revive()
        contended += [f"{second.__name__}: {code}" for code in contentions]
    return contended


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
