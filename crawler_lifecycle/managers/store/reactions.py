"""Reactions of a manager to ends: judgements are stored with the items' next states, and with all effects.

A page of reactions takes the same number of statements as a single reaction.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, TypeVar

from sqlalchemy import Row, Select, bindparam, select, update

from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items
from crawler_lifecycle.database.pages import pages
from crawler_lifecycle.flows.model.turns import Reaction
from crawler_lifecycle.flows.store.locks import IN_ORDER, locking
from crawler_lifecycle.managers.store.locks import OF_MANAGER, Managed
from crawler_lifecycle.managers.store.rows import ADDED
from crawler_lifecycle.model.manager_items import ItemState, Verdict

T = TypeVar("T", bound=Hashable)
items, attempts = manager_items.c, manager_attempts.c
NUMBERS: Any = bindparam("numbers", expanding=True)
THESE_ATTEMPTS = (
    attempts.flow == bindparam("of_flow"),
    attempts.manager == bindparam("of_manager"),
    attempts.number.in_(NUMBERS),
)
ITEMS_LOCKED: Select[Any] = locking(
    select(items.number, items.state, items.attempt).where(*OF_MANAGER, items.number.in_(NUMBERS)), manager_items
)
ENDED_LOCKED = locking(
    select(attempts.number, attempts.attempt, attempts.ended_at, attempts.reacted_at.is_not(None)).where(
        *THESE_ATTEMPTS, attempts.ended_at.is_not(None)
    ),
    manager_attempts,
)
JUDGE = (
    update(manager_attempts)
    .with_hint(IN_ORDER, dialect_name="mysql")
    .where(*THESE_ATTEMPTS, attempts.attempt == bindparam("of_attempt"))
)
SETTLE = update(manager_items).with_hint(IN_ORDER, dialect_name="mysql").where(*OF_MANAGER, items.number.in_(NUMBERS))
RETRY = (
    update(manager_items)
    .where(*OF_MANAGER, items.number == bindparam("of_number"))
    .values(
        state=ItemState.WAITING,
        place=ADDED,
        due=bindparam("new_due"),
        override=bindparam("new_override"),
        request=bindparam("new_request"),
    )
)
SETTLED = {Verdict.OK: (ItemState.COMPLETED, "completed"), Verdict.BAD: (ItemState.FAILED, "failed")}


def put_on_record(mine: Managed, reactions: Sequence[Reaction]) -> int:
    """Store the reactions, up to a reopened run's reaction. Return their number.

    A repeated reaction changes nothing.
    """
    on_record = 0
    for page in pages(reactions):
        key = {**mine.bound, "numbers": sorted({reaction.number for reaction in page})}
        # the items' locks come first: a door that cancels or retries an item waits
        rows = {row.number: row for row in mine.tx.execute(ITEMS_LOCKED, key)}
        ends = {tuple(end): bool(has_reaction) for *end, has_reaction in mine.tx.execute(ENDED_LOCKED, key)}
        current = list(takewhile(lambda reaction: _end_of(reaction) in ends, page))  # noqa: B023 - taken at once
        new = [reaction for reaction in _without_repeats(current) if not ends[_end_of(reaction)]]
        _judge(mine, new)
        counted = [reaction for reaction in new if is_open(rows.get(reaction.number), reaction.attempt)]
        _settle(mine, [reaction for reaction in counted if reaction.retry is None])
        _try_again(mine, counted)
        for reaction in new:
            before = mine.added
            numbers = mine.apply(reaction.effects)
            mine.count("repeated", len(numbers) - (mine.added - before))
        on_record += len(current)
        if len(current) < len(page):
            break
    return on_record


def is_open(item: Row[Any] | None, attempt: int) -> bool:
    """Return whether the attempt counts for the locked item: people may have cancelled or renewed the item."""
    return item is not None and item.state is ItemState.RUNNING and item.attempt == attempt


def _without_repeats(page: Sequence[Reaction]) -> Iterable[Reaction]:
    return {_end_of(reaction): reaction for reaction in page}.values()


def _end_of(reaction: Reaction) -> tuple[int, int, datetime | None]:
    return reaction.number, reaction.attempt, reaction.ended_at


def _judge(mine: Managed, reactions: Sequence[Reaction]) -> None:
    """Write the verdicts into the attempts, with a statement for each verdict, own word and number of attempt."""
    groups = _grouped(((r.verdict, r.outcome, r.attempt), r.number) for r in reactions)
    for (verdict, outcome, attempt), numbers in groups.items():
        judged = JUDGE.values(reacted_at=mine.at, verdict=verdict)
        if outcome is not None:
            judged = judged.values(outcome=outcome)
        mine.tx.execute(judged, {**mine.bound, "of_attempt": attempt, "numbers": numbers})


def _settle(mine: Managed, reactions: Sequence[Reaction]) -> None:
    """End the items, and count the ends."""
    for verdict, numbers in _grouped((r.verdict, r.number) for r in reactions).items():
        state, column = SETTLED[verdict]
        mine.tx.execute(SETTLE.values(state=state, due=None), {**mine.bound, "numbers": numbers})
        mine.count(column, len(numbers))


def _try_again(mine: Managed, reactions: Sequence[Reaction]) -> None:
    """Let the items wait for their next attempts."""
    again = [
        {
            **mine.bound,
            "of_number": reaction.number,
            "new_due": mine.at + timedelta(seconds=retry.delay_seconds) if retry.delay_seconds else None,
            "new_override": retry.override,
            "new_request": retry.request,
        }
        for reaction in reactions
        if (retry := reaction.retry) is not None
    ]
    if again:
        mine.tx.execute(RETRY, again)


def _grouped(numbers: Iterable[tuple[T, int]]) -> Mapping[T, list[int]]:
    groups = defaultdict[T, list[int]](list)
    for group, number in numbers:
        groups[group].append(number)
    return groups
