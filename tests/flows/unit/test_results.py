"""Graphs 1d: contexts, results, and the values that survive a way through the database."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from math import isnan
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from crawler_lifecycle.base.limits import LARGEST_RESULT
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Context, RunningJob, Workflow, crawl
from crawler_lifecycle.flows.model.records import CrawlReceipt
from crawler_lifecycle.flows.model.values import TooLarge, decode, encode, from_text, to_text, untagged
from crawler_lifecycle.flows.rules import contexts
from crawler_lifecycle.model.states import RunStatus
from tests.flows.plays import Play
from tests.kit.authors.work import item_and_context, plain, with_context


def keys(play: Play, path: str) -> list[str]:
    return sorted(contexts.sources(play.ledger, play.row(path)))


def test_042_a_cascade_sees_its_direct_dependencies() -> None:
    workflow = Workflow().add_context({"x": 1}).add("a", plain).add("b", plain, deps="a")
    play = Play(workflow.add_cascade("c", with_context, deps="b"))
    play.run(call=True)
    assert play.recorded("c") == ["b", "x"]


def test_043_results_of_sub_workflows_are_nested_in_their_order() -> None:
    deep = Workflow().add_many("inner", {"wiki": plain, "docs": plain}).add("single", plain)
    play = Play(Workflow().add_workflow("sub", deep).add_cascade("after", with_context, deps="sub"))
    play.run(call=True)
    nested = play.context_of(play.row("after"), RunningJob("flow", "after"))
    assert nested == {"sub": {"single": "plain", "inner": {"wiki": "plain", "docs": "plain"}}}
    assert list(nested["sub"]["inner"]) == ["wiki", "docs"]
    many = Play(Workflow().add_many("m", [plain] * 12).add("after", plain, deps="m"))
    context = many.context_of(many.row("after"), RunningJob("flow", "after"))
    assert list(context["m"]) == [str(number) for number in range(12)]


def test_044_an_item_sees_the_dependencies_of_the_fan_out_and_no_siblings() -> None:
    workflow = Workflow().add_context({"x": 1}).add("a", plain)
    play = Play(workflow.add_cascade("items", ([1, 2], item_and_context), deps="a"))
    play.run(call=True)
    assert play.recorded("items/1")["keys"] == ["a", "x"]


def test_044_jobs_behind_the_first_see_their_own_dependencies() -> None:
    sub = Workflow().add("first", plain).add("second", plain, deps="first")
    play = Play(Workflow().add("a", plain).add_workflow("sub", sub, deps="a"))
    assert keys(play, "sub/first") == ["a"]
    assert keys(play, "sub/second") == ["first"]


def test_045_a_dependency_without_a_result_is_none() -> None:
    workflow = Workflow().add("fails", plain).add("crawl", crawl("books"))
    workflow.add_cascade("after", with_context, deps=["fails", "crawl"], ignore_discarded=True)
    play = Play(workflow)
    play.run(fails={"fails": [None]}, call=True)
    context = play.context_of(play.row("after"), RunningJob("flow", "after"))
    assert dict(context) == {"fails": None, "crawl": None}


def test_046_recorded_results_are_nested_and_leave_out_what_is_missing() -> None:
    workflow = Workflow().add("a", plain).add("crawl", crawl("books"))
    workflow.add_many("fetch", {"users": plain, "orders": plain}).add_many("none", [])
    play = Play(workflow)
    play.run(fails={"fetch/orders": [None]}, call=True)
    results = play.results()
    assert contexts.recorded(play.ledger, results) == {"a": "plain", "fetch": {"users": "plain"}, "none": {}}
    assert contexts.recorded(play.ledger, results, ["fetch", "nowhere", "crawl"]) == {"fetch": {"users": "plain"}}
    assert contexts.recorded(play.ledger, results, ["fetch/users"]) == {"fetch/users": "plain"}


def test_047_a_context_is_known_to_be_missing() -> None:
    assert Workflow().add("a", plain).definition().context is None
    assert Workflow().add_context({}).add("a", plain).definition().context == {}


def test_a_context_loads_a_result_when_it_is_read() -> None:
    loads: list[str] = []

    def load() -> str:
        loads.append("a")
        return "value"

    context = Context({"a": load}, RunningJob("flow", "sub/b", attempt=2), {"sub/a": 1}.__getitem__)
    assert (len(context), list(context), loads) == (1, ["a"], [])
    assert (context["a"], context["a"], loads) == ("value", "value", ["a"])
    assert (context.attempt, context.key, context.results("sub/a")) == (2, "flow:sub/b:1", 1)
    with pytest.raises(KeyError):
        Context({}, RunningJob("flow", "b")).results("a")


class Word(StrEnum):
    ONE = "one"


class Model(BaseModel):
    number: int
    at: datetime


@dataclass
class Record:
    name: str
    parts: tuple[int, ...]


def test_049_the_result_of_a_crawl_is_a_plain_value() -> None:
    receipt = CrawlReceipt(
        run_id=1, run_uid="uid", status=RunStatus.COMPLETED, tasks=4, archive="s3://b/uid.zip", stats={"items": 3}
    )
    assert decode(encode("result", receipt)) == {
        "run_id": 1,
        "run_uid": "uid",
        "status": "COMPLETED",
        "reason": None,
        "outcome": None,
        "tasks": 4,
        "archive": "s3://b/uid.zip",
        "stats": {"items": 3},
        "result": None,
        "files": None,
    }


NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
ORDINARY: list[Any] = [
    None,
    True,
    2**70,
    1.5,
    float("inf"),
    "nul \0 and \ud800",
    NOW,
    NOW.replace(tzinfo=None),
    date(2026, 1, 2),
    time(3, 4),
    timedelta(days=-1, microseconds=3),
    Decimal("1.10"),
    UUID(int=5),
    b"\x00\xff",
    {1, 2},
    frozenset({"a"}),
    (1, (2, "x")),
    {1: "int", None: "none", (1, 2): "tuple"},
    {"$": "a key of ours", "v": 3},
    [{"deep": [{"er": (NOW,)}]}],
]


@pytest.mark.parametrize("value", ORDINARY)
def test_048_values_come_back_as_they_were(value: Any) -> None:
    back = from_text(to_text("result", value, LARGEST_RESULT))
    assert back == value
    assert type(back) is type(value)


def test_048_what_has_a_json_form_comes_back_as_plain_data() -> None:
    assert isnan(from_text(to_text("result", float("nan"), 100)))
    assert untagged([float("nan"), float("-inf")]) == ["NaN", "-Infinity"]
    assert decode(encode("result", Word.ONE)) == "one"
    assert decode(encode("result", Model(number=1, at=NOW))) == {"number": 1, "at": NOW}
    assert decode(encode("result", Record("a", (1, 2)))) == {"name": "a", "parts": (1, 2)}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary()
        | st.datetimes(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=20,
    )
)
@pytest.mark.long
def test_048_any_nesting_survives(value: Any) -> None:
    assert from_text(to_text("result", value, LARGEST_RESULT)) == value


@pytest.mark.parametrize("value", [object(), lambda: None, open, {"x": [1, {2: range(3)}]}, iter([])])
def test_050_a_value_without_a_form_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(BadInput, match=r"^result.*cannot be kept as JSON"):
        encode("result", value)


def test_048_half_of_a_surrogate_pair_survives_and_is_shown_as_a_replacement() -> None:
    """One such result made all results of its flow unreadable by the command line and over HTTP."""
    files = {"caf\udce9.txt": ["\ud800", ("\U0001f600",), {"\udfff"}], ("\udce9", 1): "x"}
    assert from_text(to_text("result", files, LARGEST_RESULT)) == files
    shown = untagged(files)
    assert shown == {"caf\ufffd.txt": ["\ufffd", ["\U0001f600"], ["\ufffd"]], "\ufffd,1": "x"}
    assert json.loads(json.dumps(shown, ensure_ascii=False).encode()) == shown


def test_050_a_result_that_is_too_large_is_told_by_number() -> None:
    with pytest.raises(TooLarge, match="result: 1002 bytes as JSON, at most 1000 are possible"):
        to_text("result", "x" * 1000, 1000)
    nested: Any = 1
    for _ in range(200):
        nested = [nested]
    with pytest.raises(BadInput, match="nested more than 100 deep"):
        encode("result", nested)
