"""Texts about crawl managers said `1 parameter sets read`, `1 jobs run` and `0.02 hours with 1 jobs at once`.

The preview of a periodic manager, whose crawls have no end, had a forecast of hours for a single crawl.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.flows.cli.manager_lines import count_words, status_lines, sum_words
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ItemSums, ManagerStatus
from crawler_lifecycle.flows.model.records import Why
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.rules.managers import explained, manager_explained
from crawler_lifecycle.model.flow_states import FlowIntent
from crawler_lifecycle.model.manager_items import ItemState, Origin

pytestmark = pytest.mark.regression(
    "Texts about crawl managers said `1 parameter sets read`, `1 jobs run` and `0.02 hours with 1 jobs at once`"
)

FILE = """
from crawler_lifecycle.managers import GeneratorCrawlManager, PeriodicCrawlManager


class Single(GeneratorCrawlManager):
    name = "single"
    spider = "shop"

    def set_parameters_gen(self):
        yield {"shop": "ann"}


class Again(PeriodicCrawlManager):
    name = "again"
    spider = "shop"
    loop_mode = 60
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "counted_managers.py"
    path.write_text(FILE)
    yield path
    sys.modules.pop("counted_managers", None)


def status(**fields: Any) -> ManagerStatus:
    return ManagerStatus(path="manager", function="shops:Shops", incarnation=1, **fields)


def cause_of_waiting_item(counts: Counts) -> str | None:
    item = ItemRecord(
        number=2, state=ItemState.WAITING, origin=Origin.GENERATOR, override={}, generation=1, attempt=0, tries=0
    )
    return explained(item, status(counts=counts), FlowIntent.RUN).cause


@pytest.mark.parametrize(("read", "words"), [(1, "all 1 input read"), (2, "all 2 inputs read")])
def test_the_generators_sets_are_counted(read: int, words: str) -> None:
    assert f"    generator {words}" in list(status_lines(status(read=read, is_exhausted=True)))
    assert f"    generator {words.removeprefix('all ')} so far" in list(status_lines(status(read=read)))


@pytest.mark.parametrize(("repeated", "words"), [(1, "1 duplicate skipped"), (3, "3 duplicates skipped")])
def test_duplicates_are_counted(repeated: int, words: str) -> None:
    sums = ItemSums(
        total=2,
        completed=2,
        failed=0,
        cancelled=0,
        refused=0,
        failures=0,
        repeated=repeated,
        has_problem=False,
        is_exhausted=True,
    )
    assert sum_words(sums) == f"2 items: 2 completed, {words}"
    assert count_words(Counts(completed=2, repeated=repeated)) == f"2 completed, {words}"


def test_a_waiting_item_of_a_manager_without_a_host_names_the_command() -> None:
    """The explanation of the item, and `flow show`, had words and no remedy."""
    manager = ManagerStatus(path="manager", function="shops:Shops")
    words = "no_host: no running host has loaded the manager shops:Shops: start `crawlctl up --flows FILE`"
    assert f"    cause     {words}" in list(status_lines(manager))
    waiting = ItemRecord(
        number=2, state=ItemState.WAITING, origin=Origin.GENERATOR, override={}, generation=1, attempt=0, tries=0
    )
    assert explained(waiting, manager, FlowIntent.RUN).cause == words


def test_jobs_and_items_are_counted() -> None:
    assert cause_of_waiting_item(Counts(running=1, waiting=1)) == "room: 1 job runs, and 1 item waits for its turn"
    assert cause_of_waiting_item(Counts(running=4, waiting=2)) == "room: 4 jobs run, and 2 items wait for their turn"


@pytest.mark.parametrize(("delayed", "words"), [(1, "(1 item waits)"), (3, "(3 items wait)")])
def test_held_items_are_counted(delayed: int, words: str) -> None:
    held = status(counts=Counts(delayed=delayed))
    explanation = manager_explained(held, Why(path="manager", state="executing"), FlowIntent.RUN)
    assert (explanation.cause or "").endswith(words)


def test_a_manager_of_a_silent_host_waits_for_a_host() -> None:
    member = Why(path="manager", state="executing", cause="silent_host:shops")
    explanation = manager_explained(status(counts=Counts(running=2)), member, FlowIntent.RUN)
    assert (explanation.cause or "").startswith("no_host: no running host has loaded the manager")


def forecast(file: Path, name: str) -> list[str]:
    words = ["flow", "check", f"{file}:{name}", "--duration", "1h"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if line.startswith("forecast")]


def test_a_forecast_counts_hours_and_jobs(file: Path) -> None:
    assert forecast(file, "Single") == ["forecast: 1 hour with 1 job at once"]


def test_a_periodic_manager_has_no_forecast(file: Path) -> None:
    assert forecast(file, "Again") == []
