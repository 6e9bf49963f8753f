"""Searches among a manager's items: pages are short rather than slow, and together have every item that fits."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.manager_schema import manager_attempts, manager_items, managers
from crawler_lifecycle.flows.model.manager_records import ItemRecord
from crawler_lifecycle.flows.model.requests import ItemFilter
from crawler_lifecycle.managers.store import finding
from crawler_lifecycle.managers.store.ends import CANCELLED_CRAWL
from crawler_lifecycle.model.manager_items import ItemState, Origin
from crawler_lifecycle.model.requests import RunParameters
from tests.kit.data.managers import managed

ITEMS, TRIES = 100, 15
LIMIT = 5
NOW = datetime(2026, 11, 30, tzinfo=UTC)
OUTCOMES, TAGS, LABELS = ("finished", "banned", CANCELLED_CRAWL), ("night", "rare"), ("site:a", "site:b")


@pytest.fixture
def few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_READ", 3 * (len(ItemState) + 1))  # one for each state and place


@pytest.fixture
def chance() -> random.Random:
    return random.Random(7)


@pytest.fixture(params=[False, True], ids=["open", "closed"])
def is_closed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def stored(database: Database, chance: random.Random, is_closed: bool) -> list[dict[str, Any]]:
    """Items with values by chance."""
    managed(database, "shop")
    with database.transaction() as tx:
        key = tx.execute(select(managers.c.flow, managers.c.manager)).one()._asdict()
        if is_closed:
            tx.execute(update(managers).values(closed_at=NOW))
        rows = [_rows(chance, number, is_closed=is_closed) for number in range(1, ITEMS + 1)]
        tx.execute(insert(manager_items), [{**key, **row} for row, _, _ in rows])
        tx.execute(insert(manager_attempts), [{**key, **attempt} for _, attempts, _ in rows for attempt in attempts])
    return [facts for _, _, facts in rows]


def _rows(
    chance: random.Random, number: int, *, is_closed: bool
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """Return the item's row, the rows of its attempts, and what people should see."""
    state, last = chance.choice(list(ItemState)), chance.randint(0, 3)
    request = RunParameters(crawler="books")
    common = {"number": number, "generation": 1, "override": {}}
    attempts: list[dict[str, Any]] = [
        {
            **common,
            **{"attempt": attempt, "member": number, "tries": attempt, "began_at": NOW},
            "request": RunParameters(
                crawler="books", tags=chance.sample(TAGS, chance.randint(0, 2)), labels=[chance.choice(LABELS)]
            ),
            "outcome": chance.choice(OUTCOMES),
            "is_failed": chance.random() < 0.5,
            "ended_at": chance.choice((NOW, None)) if attempt == last else NOW,
            "reacted_at": None if attempt == last and state is ItemState.RUNNING else NOW,
        }
        for attempt in range(1, last + 1)
    ]
    row = {
        **common,
        **{"member": number, "origin": Origin.GENERATOR, "state": state, "place": chance.randint(0, 2)},
        **{"attempt": last, "tries": last, "request": request},
    }
    newest = attempts[-1] if attempts else None
    words = [] if newest is None else [*newest["request"].tags, *newest["request"].labels]
    shown = _by_end(newest) if newest and is_closed and _is_late(newest) and state is ItemState.RUNNING else state
    facts = {"number": number, "state": shown, "outcome": newest and newest["outcome"], "words": words}
    return row, attempts, facts


def _is_late(attempt: dict[str, Any]) -> bool:
    return attempt["ended_at"] is not None and attempt["reacted_at"] is None


def _by_end(attempt: dict[str, Any]) -> ItemState:
    if attempt["outcome"] == CANCELLED_CRAWL:
        return ItemState.CANCELLED
    return ItemState.FAILED if attempt["is_failed"] else ItemState.COMPLETED


def fits(item: dict[str, Any], chosen: ItemFilter) -> bool:
    """Say the same as the statements, in words of Python."""
    return all((
        not chosen.states or item["state"] in chosen.states,
        chosen.outcome in (None, item["outcome"]),
        chosen.tag is None or chosen.tag in item["words"],
        chosen.numbers is None or item["number"] in chosen.numbers,
    ))  # fmt: skip


def by_chance(chance: random.Random) -> ItemFilter:
    values: dict[str, Any] = {
        "states": tuple(chance.sample(list(ItemState), chance.randint(1, len(ItemState)))),
        "outcome": chance.choice((*OUTCOMES, "nothing_like_it")),
        "tag": chance.choice((*TAGS, *LABELS, "nothing_like_it")),
        "numbers": tuple(chance.sample(range(1, ITEMS + 9), 70)),
    }
    return ItemFilter(**{name: values[name] for name in chance.sample(list(values), chance.randint(0, 3))})


def test_pages_together_have_all_items_that_fit(
    database: Database, stored: list[dict[str, Any]], chance: random.Random, few_reads: None
) -> None:
    doors = managed(database, "shop", begins=False).store.manager_doors
    short = 0
    for _ in range(TRIES):
        chosen = by_chance(chance)
        expected = [(item["number"], item["state"]) for item in stored if fits(item, chosen)]
        listed, after = list[ItemRecord](), 0
        while True:
            page = doors.search_items("shop", chosen, after=after, limit=LIMIT)
            listed += page.items
            if page.rest is None:
                break
            short += len(page.items) < LIMIT
            assert page.rest > after
            after = page.rest
        assert [(item.number, item.state) for item in listed] == expected, chosen
        assert [item.number for item in doors.items("shop", chosen, limit=LIMIT)] == [n for n, _ in expected[:LIMIT]]
    assert short, "no page was short: the reads had no limit"
