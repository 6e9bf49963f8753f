"""Patterns mean what EventBridge's mean, and templates bring an event's values into requests."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.events.models import EventPattern

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.triggers.model import Act, Event, TriggerRule
from crawler_lifecycle.triggers.rules import matches, pattern_mistakes, rendered, rule_for, template_mistakes

EVENT = {
    "id": "e-1",
    "source": "shop.orders",
    "detail-type": "Order Placed",
    "detail": {"order": 17, "site": "books.example", "tags": ["new", "big"], "buyer": {"vip": True}, "note": None},
}
SCALARS = st.sampled_from(["a", "ab", "b", "AB", "", 1, 2, 2.5])
FIELDS = st.dictionaries(st.sampled_from("xyz"), st.one_of(SCALARS, st.lists(SCALARS, min_size=1, max_size=3)))
TESTS = st.one_of(
    SCALARS,
    st.fixed_dictionaries({"prefix": st.sampled_from(["a", "b", ""])}),
    st.fixed_dictionaries({"suffix": st.sampled_from(["a", "b"])}),
    st.fixed_dictionaries({"equals-ignore-case": st.sampled_from(["ab", "A"])}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.fixed_dictionaries({"numeric": st.sampled_from([[">", 1], ["=", 2], [">", 1, "<=", 2.5], ["<", 1], [">=", 2]])}),
    st.fixed_dictionaries(
        {"anything-but": st.one_of(SCALARS, st.lists(SCALARS, min_size=1), st.just({"prefix": "a"}))}
    ),
)
LEAVES = st.dictionaries(st.sampled_from("xyz"), st.lists(TESTS, min_size=1, max_size=3), min_size=1)


@given(st.fixed_dictionaries({"detail": LEAVES}), st.fixed_dictionaries({"detail": FIELDS}))
def test_patterns_mean_what_another_program_reads_in_them(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    assert matches(pattern, event) is EventPattern.load(json.dumps(pattern)).matches_event(event)  # type: ignore[arg-type]
    assert not list(pattern_mistakes(pattern))


@pytest.mark.parametrize(
    ("detail", "fits"),
    [
        ({"order": [17]}, True),
        ({"order": [17.0]}, True),
        ({"order": ["17"]}, False),
        ({"buyer": {"vip": [True]}}, True),
        ({"buyer": {"vip": [1]}}, False),
        ({"buyer": {"age": [{"exists": False}]}}, True),
        ({"seller": {"age": [{"exists": False}]}}, True),
        ({"seller": {"age": [{"exists": True}]}}, False),
        ({"tags": ["big"]}, True),
        ({"tags": [{"prefix": "b"}], "order": [18]}, False),
        ({"site": [{"anything-but": "books.example"}]}, False),
        ({"site": [{"anything-but": "b"}]}, True),
        ({"site": [{"anything-but": ["toys.example", "books.example"]}]}, False),
        ({"order": [{"anything-but": 17}]}, False),
        ({"order": [{"anything-but": [16, 18]}]}, True),
        ({"seller": [{"anything-but": "books.example"}]}, False),
        ({"site": {"inner": ["books.example"]}}, False),
    ],
)
def test_values_and_inner_fields(detail: dict[str, Any], fits: bool) -> None:
    assert matches({"source": ["shop.orders"], "detail": detail}, EVENT) is fits


def test_the_first_rule_that_fits_counts() -> None:
    event = Event.model_validate(EVENT)
    rules = [
        TriggerRule("other", {"source": ["shop.returns"]}, Act.START_RUN, {}),
        TriggerRule("first", {"source": ["shop.orders"]}, Act.START_RUN, {}),
        TriggerRule("second", {"source": ["shop.orders"]}, Act.STOP_RUN, {}),
    ]
    assert rule_for(event, rules).name == "first"
    with pytest.raises(BadInput, match=r"no rule fits source 'shop.orders' with detail type 'Order Placed'"):
        rule_for(event, rules[:1])


def test_templates_stand_for_values_with_their_types_or_for_texts() -> None:
    wanted = {"tasks": "$.detail.order", "text": "order {$.detail.order} of {$.source}", "list": ["$.detail.tags", "x"]}
    assert rendered(wanted, EVENT, "request") == {
        "tasks": 17,
        "text": "order 17 of shop.orders",
        "list": [["new", "big"], "x"],
    }
    assert rendered(["$.detail.order", "$.detail.buyer.vip"], EVENT, "arguments", as_text=True) == ["17", "true"]
    assert rendered("{not a template} $.5", EVENT, "text") == "{not a template} $.5"


@pytest.mark.parametrize("path", ["$.detail.missing", "$.detail.note", "$.detail.order.deeper"])
def test_a_value_that_the_event_lacks_is_named_with_its_place(path: str) -> None:
    for template in (path, f"site:{{{path}}}"):
        with pytest.raises(BadInput) as refused:
            rendered({"labels": [template]}, EVENT, "run")
        assert refused.value.mistakes == (("run.labels.0", f"the event has no {path}"),)


@pytest.mark.parametrize(
    ("pattern", "field", "words"),
    [
        ({}, "pattern", "expected fields"),
        (None, "pattern", "expected fields"),
        ({"detail_type": ["x"]}, "pattern.detail_type", "is detail-type meant?"),
        ({"source": "shop"}, "pattern.source", "expected a list"),
        ({"source": []}, "pattern.source", "expected a list"),
        ({"source": [["shop"]]}, "pattern.source", "expected texts"),
        ({"source": [{"prefx": "shop"}]}, "pattern.source", "expected one of the operators prefix"),
        ({"source": [{"prefix": "a", "suffix": "b"}]}, "pattern.source", "expected one of the operators"),
        ({"detail": {"x": [{"prefix": 5}]}}, "pattern.detail.x.prefix", "expected a text"),
        ({"detail": {"x": [{"exists": "yes"}]}}, "pattern.detail.x.exists", "expected true or false"),
        ({"detail": {"x": [{"numeric": [">"]}]}}, "pattern.detail.x.numeric", "expected comparisons"),
        ({"detail": {"x": [{"numeric": ["!", 5]}]}}, "pattern.detail.x.numeric", "expected comparisons"),
        ({"detail": {"x": [{"anything-but": {"exists": True}}]}}, "pattern.detail.x.anything-but", "expected values"),
        ({"detail": {}}, "pattern.detail", "expected fields"),
    ],
)
def test_a_mistake_in_a_pattern_is_named(pattern: Any, field: str, words: str) -> None:
    [(place, expected)] = pattern_mistakes(pattern)
    assert (place, words in expected) == (field, True), expected


def test_a_mistake_in_a_template_is_named() -> None:
    request = {"crawler": "$.details.spider", "arguments": {"a": "$.detail.the spider", "b": "x {$.idd} {$.id}"}}
    assert [place for place, _ in template_mistakes(request, "start_run")] == [
        "start_run.crawler",
        "start_run.arguments.a",
        "start_run.arguments.b",
    ]


def test_two_events_never_share_a_key() -> None:
    """The second event was answered as a repetition of the first."""
    pairs = [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c")]
    events = [
        Event.model_validate({"id": number, "source": source, "detail-type": "t", "detail": {}})
        for source, number in pairs
    ]
    assert len({event.key for event in events}) == len(pairs)
