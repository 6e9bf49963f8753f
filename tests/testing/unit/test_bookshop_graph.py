"""The example's graph, with the kit: the crawls leave the files that the bookshop's spider would leave."""

import json
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crawler_lifecycle.testing import (
    CrawlOutcome,
    Outcome,
    Result,
    assert_valid,
    completed,
    explore,
    failed,
    run_inline,
)
from crawler_lifecycle.testing.scenario import Crawl

EXAMPLES = Path(__file__).parents[3] / "examples"
CATEGORIES = completed(files={"items-0.jsonl": "".join(f'{{"list": "/list/{number}"}}\n' for number in range(1, 7))})


@pytest.fixture(scope="module")
def graph() -> ModuleType:
    """The example as a host imports it."""
    spec = spec_from_file_location("bookshop_graph", EXAMPLES / "flows" / "bookshop_graph.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["bookshop_graph"] = module
    spec.loader.exec_module(module)
    return module


def books(*titles: str, price: float = 1.5) -> str:
    return "".join(json.dumps({"url": title, "title": title, "price": price}) + "\n" for title in titles)


def part(*titles: str) -> CrawlOutcome:
    return completed(files={"items-0.jsonl": books(*titles)})


@pytest.fixture
def workflow(graph: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(graph, "OUTPUT", tmp_path / "books.json")
    return graph.workflow()


def test_the_graph_is_valid(workflow: Any) -> None:
    assert_valid(workflow, catalogue=EXAMPLES / "catalogue.toml")
    assert 'parts["parts (plan_parts)"]' in workflow.to_mermaid()


def test_the_books_of_all_tasks_are_loaded(workflow: Any, tmp_path: Path) -> None:
    crawls = {"categories": CATEGORIES, "parts/crawl_0": part("Moss", "Snow"), "parts/crawl_1": part("Tides")}
    result = run_inline(workflow, crawls=crawls).assert_completed()
    assert [book["title"] for book in json.loads((tmp_path / "books.json").read_text())] == ["Moss", "Snow", "Tides"]
    assert result.recorded("load") == {"file": str(tmp_path / "books.json"), "books": 3}
    assert result.requests["parts/crawl_1"][0]["arguments"] == {"lists": "/list/5,/list/6"}
    assert [path for path in result.order if path.startswith("parts/books")] == [
        "parts/books_0/0",
        "parts/books_0/1",
        "parts/books_1/0",
        "parts/books_1/1",
    ]


def test_a_book_twice_is_not_loaded(workflow: Any, tmp_path: Path) -> None:
    crawls = {"categories": CATEGORIES, "parts/*": part("Moss")}
    result = run_inline(workflow, crawls=crawls)
    assert (result.state, result.recorded("check/0")) == ("discarded", ["Moss"])
    assert "broken rules: {'no book twice': ['Moss']}" in str(result.errors["load"])
    assert not (tmp_path / "books.json").exists()


def test_a_crawl_is_tried_again(workflow: Any) -> None:
    crawls: dict[str, Crawl | Sequence[Crawl]] = {
        "categories": CATEGORIES,
        "parts/crawl_0": [failed(), part("Moss")],
        "parts/crawl_1": part("Snow"),
    }
    result = run_inline(workflow, crawls=crawls).assert_completed()
    assert result.attempts["parts/crawl_0"] == 2


@pytest.mark.long
def test_no_failure_leaves_a_file(workflow: Any, tmp_path: Path) -> None:
    def has_file(result: Result) -> None:
        exists = (tmp_path / "books.json").exists()
        (tmp_path / "books.json").unlink(missing_ok=True)
        assert exists is (result.states["load"] == "completed")

    crawls = {"categories": CATEGORIES, "parts/crawl_0": part("Moss"), "parts/crawl_1": part("Snow")}
    explored = explore(workflow, has_file, calls=True, crawls=crawls, outcomes=[Outcome.DISCARDED])
    assert explored.is_complete, str(explored)
    assert explored.ends == {"completed": 1, "discarded": explored.plays - 1}
