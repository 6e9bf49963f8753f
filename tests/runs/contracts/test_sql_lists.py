"""Lists and counts with few reads find the same runs as a look at every run."""

import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.schema import histories
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.reasons import BY_A_STOP
from crawler_lifecycle.model.records import WINDOW, RunFilter, RunSummary
from crawler_lifecycle.model.states import ListedStatus, RunStatus, Trigger
from crawler_lifecycle.runs.store import choosing
from tests.kit.data.databases import MakeRun

RUNS, TRIES = 40, 25
CRAWLERS, REASONS = ("books", "toys", "Bookshop"), ("all_succeeded", "stopped", "stopped_forced", "exit_3")
REQUESTERS, TAGS, LABELS = (None, "ann", "ann (token shop)", "annie"), ("hot", "cold"), ("site:a", "site:b")
OUTCOMES, HOUR = ("finished", "banned"), timedelta(hours=2)


@pytest.fixture
def few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_READ", 10)
    monkeypatch.setattr(choosing, "MOST_COUNTED", 4)
    monkeypatch.setattr(choosing, "NEIGHBOURS", 2)


@pytest.fixture
def chance() -> random.Random:
    return random.Random(7)


@pytest.fixture
def stored(database: Database, make_run: MakeRun, chance: random.Random) -> list[dict[str, Any]]:
    """Runs with values by chance, oldest first, two hours between two of them."""
    runs = [_stored(database, make_run, chance, number) for number in range(RUNS)]
    return runs[::-1]


def _stored(database: Database, make_run: MakeRun, chance: random.Random, number: int) -> dict[str, Any]:
    words = {"tags": chance.sample(TAGS, chance.randint(0, 2)), "labels": chance.sample(LABELS, chance.randint(0, 2))}
    request = {"requested_by": chance.choice(REQUESTERS), "trigger": chance.choice(list(Trigger)), **words}
    run = make_run(1, entry=Crawler(name=chance.choice(CRAWLERS)), **request)
    status = chance.choice(list(RunStatus))
    end = {"reason": chance.choice(REASONS), "outcome": chance.choice(OUTCOMES)} if status.is_over else {}
    row = {"status": status, "created_at": run.created_at + number * HOUR, **end}
    with database.transaction() as connection:
        connection.execute(update(histories).where(histories.c.id == run.run_id).values(row))
    return {"crawler": run.crawler, "reason": None, "outcome": None, "run_id": run.run_id, **request, **row}


def fits(run: dict[str, Any], chosen: RunFilter) -> bool:
    """Say the same as the statements, in words of Python."""
    requester, name = run["requested_by"] or "", chosen.requested_by
    return all((
        not chosen.status or run["status"] in chosen.status,
        not chosen.listed or listed(run) in chosen.listed,
        not chosen.trigger or run["trigger"] in chosen.trigger,
        chosen.crawler in (None, run["crawler"]),
        chosen.reason in (None, run["reason"]),
        chosen.outcome in (None, run["outcome"]),
        chosen.search is None or chosen.search.lower() in run["crawler"].lower() or chosen.search == str(run["run_id"]),
        name is None or requester == name or requester.startswith(f"{name} (token "),
        chosen.tag is None or chosen.tag in run["tags"],
        chosen.label is None or chosen.label in run["labels"],
        chosen.since is None or run["created_at"] >= chosen.since,
        chosen.until is None or run["created_at"] < chosen.until,
    ))  # fmt: skip


def listed(run: dict[str, Any]) -> ListedStatus:
    was_stopped = run["status"] is RunStatus.FAILED and run["reason"] in BY_A_STOP
    return ListedStatus.STOPPED if was_stopped else ListedStatus(run["status"].value)


def by_chance(chance: random.Random, stored: list[dict[str, Any]]) -> RunFilter:
    times = sorted(run["created_at"] for run in chance.sample(stored, 2))
    values: dict[str, Any] = {
        "status": tuple(chance.sample(list(RunStatus), 2)),
        "listed": tuple(chance.sample(list(ListedStatus), chance.randint(1, 3))),
        "trigger": tuple(chance.sample(list(Trigger), chance.randint(1, 2))),
        "crawler": chance.choice(CRAWLERS),
        "search": chance.choice(("BOOK", "toys", "x", str(stored[3]["run_id"]))),
        "reason": chance.choice(REASONS),
        "outcome": chance.choice(OUTCOMES),
        "requested_by": chance.choice(("ann", "annie", "an")),
        "tag": chance.choice(TAGS),
        "label": chance.choice(LABELS),
        "since": times[0],
        "until": times[1],
    }
    assert values.keys() | {"flow", "flows"} == RunFilter.model_fields.keys()
    return RunFilter(**{name: values[name] for name in chance.sample(list(values), chance.randint(0, 4))})


def test_pages_together_have_all_runs_that_fit(
    database: Database, stored: list[dict[str, Any]], chance: random.Random, few_reads: None
) -> None:
    records = SqlStore(database).records
    short = 0
    for _ in range(TRIES):
        chosen = by_chance(chance, stored)
        expected = [run["run_id"] for run in stored if fits(run, chosen)]
        runs, before = list[RunSummary](), None
        while True:
            page = records.search(chosen, limit=5, before=before)
            runs += page.runs
            if page.rest is None:
                break
            short += len(page.runs) < 5
            assert before is None or page.rest < before
            before = page.rest
        assert [run.run_id for run in runs] == expected, chosen
        assert [run.run_id for run in records.page(chosen, limit=5)] == expected[:5]
    assert short, "no page was short: the reads had no limit"


def test_a_search_finds_an_old_run_on_the_first_page(database: Database, make_run: MakeRun, few_reads: None) -> None:
    old = make_run(1)
    for _ in range(12):
        make_run(1, entry=Crawler(name="toys"))
    for word in ("BOOK", str(old.run_id)):
        page = SqlStore(database).records.search(RunFilter(search=word), limit=5)
        assert [run.run_id for run in page.runs] == [old.run_id], word


def test_counts_are_exact_or_say_that_they_are_not(
    database: Database, stored: list[dict[str, Any]], chance: random.Random, few_reads: None
) -> None:
    records = SqlStore(database).records
    incomplete = 0
    for _ in range(TRIES):
        chosen = by_chance(chance, stored)
        expected = Counter(listed(run) for run in stored if fits(run, chosen))
        answer = records.counts(chosen)
        for status in ListedStatus:
            count = answer.counts.get(status, 0)
            assert count == expected[status] or (status in answer.at_least and count < expected[status]), chosen
        incomplete += bool(answer.at_least)
    assert incomplete, "no count was incomplete: the reads had no limit"


def test_a_search_goes_back_thirty_days(database: Database, make_run: MakeRun) -> None:
    old = make_run(1, tags=["hot"])
    now = old.created_at + WINDOW + HOUR

    def finds(now: Any = now, **chosen: Any) -> bool:
        return bool(SqlStore(database).records.page(RunFilter(**chosen).in_window(now), limit=9))

    assert not finds(tag="hot")
    assert finds(tag="hot", now=old.created_at + WINDOW - HOUR)
    assert finds(tag="hot", since=old.created_at)
    assert finds(tag="hot", until=old.created_at + HOUR)
    assert finds(tag="hot", status=(RunStatus.INITIALIZING,))
    assert finds(search=str(old.run_id))
    assert not finds(search="book")
    assert finds()
    assert finds(crawler="books")
