"""Results of a sub-workflow as a mapping that loads page by page."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from crawler_lifecycle.flows.authors.running import PAGE, Results
from crawler_lifecycle.flows.model.values import from_text, to_text
from crawler_lifecycle.flows.rules.contexts import Source


class Loader:
    """Loads a text for each number but 3, at most `most` at a time, and counts."""

    def __init__(self, most: int = PAGE) -> None:
        self.loaded: list[list[int]] = []
        self.most = most

    def __call__(self, numbers: Collection[int]) -> Mapping[int, Any]:
        first = list(numbers)[: self.most]
        self.loaded.append(first)
        return {number: None if number == 3 else f"r{number}" for number in first}


def test_nothing_is_loaded_before_a_value_is_read() -> None:
    load = Loader()
    results = Results({"a": 1, "b": 2}, load)
    assert list(results) == ["a", "b"]
    assert len(results) == 2
    assert "b" in results
    assert load.loaded == []


def test_a_fan_in_of_thousands_keeps_a_page() -> None:
    load = Loader()
    results = Results({str(number): number for number in range(10_000)}, load)
    assert list(results.values())[-1] == "r9999"
    assert len(load.loaded) == 10_000 / PAGE
    assert max(map(len, load.loaded)) == PAGE
    assert len(results._page) <= PAGE


def test_large_results_come_in_smaller_pages() -> None:
    load = Loader(most=2)
    results = Results({str(number): number for number in range(5)}, load)
    assert list(results.values()) == ["r0", "r1", "r2", None, "r4"]
    assert load.loaded == [[0, 1], [2, 3], [4]]
    assert (results["1"], load.loaded[-1]) == ("r1", [0, 1])


def test_small_results_come_by_pages_in_any_order() -> None:
    load = Loader()
    results = Results({str(number): number for number in range(4, 204)}, load)
    assert [results[name] for name in reversed(list(results))] == [f"r{number}" for number in reversed(range(4, 204))]
    assert len(load.loaded) == 200 / PAGE


def test_threads_read_at_the_same_time() -> None:
    """Another reader may take the page away between a look at the page and the value."""
    results: Results

    def load(numbers: Collection[int]) -> Mapping[int, Any]:
        if 0 in numbers:
            assert results["60"] == "r60"
        return {number: f"r{number}" for number in numbers}

    results = Results({str(number): number for number in range(100)}, load)
    assert [results["0"], results["99"], results["1"]] == ["r0", "r99", "r1"]


def test_a_small_group_is_loaded_once() -> None:
    load = Loader()
    results = Results({"a": 1, "b": 2, "none": 3}, load)
    assert dict(results) == {"a": "r1", "b": "r2", "none": None}
    assert results == {"a": "r1", "b": "r2", "none": None}
    assert load.loaded == [[1, 2, 3]]


def test_groups_inside_are_mappings_again() -> None:
    load = Loader()
    sources: dict[str, Source] = {"inner": {"deep": {"x": 7}, "y": 8}, "z": 9}
    results = Results(sources, load)
    assert results["inner"]["deep"]["x"] == "r7"
    assert results["inner"] is results["inner"]
    assert results.to_dict() == {"inner": {"deep": {"x": "r7"}, "y": "r8"}, "z": "r9"}
    assert repr(results) == repr(results.to_dict())
    with pytest.raises(KeyError):
        results["unknown"]


def test_they_can_be_a_result_themselves() -> None:
    results = Results({"a": 1, "inner": {"b": 2}}, Loader())
    assert from_text(to_text("result", results, 1000)) == {"a": "r1", "inner": {"b": "r2"}}
    assert json.dumps(results.to_dict()) == '{"a": "r1", "inner": {"b": "r2"}}'
