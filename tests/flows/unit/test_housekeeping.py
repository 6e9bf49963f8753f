"""Graphs 1i as far as it is pure, and the way of definitions through JSON."""

import subprocess
import sys
from datetime import timedelta

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow, any_of, crawl, each_task
from crawler_lifecycle.flows.authors.building import fragment_of
from crawler_lifecycle.flows.model.definition import FlowDefinition
from crawler_lifecycle.flows.model.requests import AppendMembers, CancelMembers, PushFlow, RetryMembers
from crawler_lifecycle.flows.rules.pruning import AFTER_A_DAY, Age, Rule
from crawler_lifecycle.model.requests import parse
from tests.flows.plays import NOW
from tests.kit.authors.work import UserNotifier, item_and_context, plain


@pytest.mark.parametrize(
    ("rule", "hours", "pruned"),
    [
        (Age() > 3600, 1, False),
        (Age() > 3600, 2, True),
        (Age() >= timedelta(hours=1), 1, True),
        (Age() < 3600, 2, False),
        (Age() <= 3600, 1, True),
        ((Age() > 3600) & (Age() < 3 * 3600), 2, True),
        ((Age() > 3600) & (Age() < 3 * 3600), 4, False),
        ((Age() < 3600) | (Age() > 3 * 3600), 4, True),
        (Age() == 7200, 2, True),
        (Age() != timedelta(hours=2), 2, False),
    ],
)
def test_081_rules_compare_the_time_since_the_end(rule: Rule, hours: int, pruned: bool) -> None:
    assert rule.holds(timedelta(hours=hours)) is pruned


def test_081_the_default_is_a_day() -> None:
    assert not AFTER_A_DAY.holds(timedelta(days=1))
    assert AFTER_A_DAY.holds(timedelta(days=1, seconds=1))


def test_a_definition_and_requests_survive_json() -> None:
    workflow = Workflow("all", id="flow").add_context({"since": NOW}).add("shop", crawl("books", tasks=2))
    workflow.add_cascade("parse", each_task("shop", item_and_context)).add_many("m", [plain], deps="shop")
    workflow.add_graft("g", UserNotifier.new({"account_id": 1}), deps=any_of(["shop", "m"], at_least=0.5))
    definition = workflow.add_approval("ok", deps="g").definition()
    assert FlowDefinition.model_validate_json(definition.model_dump_json()) == definition
    for request in (
        PushFlow(definition=definition, actor="me"),
        AppendMembers(key="k", fragment=fragment_of(Workflow().add("x", plain))),
        CancelMembers(paths=("a", "b/c"), terminate=False),
        RetryMembers(paths=("a",), arguments={"x": 1}),
    ):
        assert type(request).model_validate_json(request.model_dump_json()) == request


@pytest.mark.parametrize("path", ["", "a//b", "/a", "a/", "x" * 129, "a\nb", "/".join("a" * 30)])
def test_a_bad_path_in_a_request_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="paths"):
        parse(CancelMembers, CancelMembers.model_construct(paths=(path,), actor=None).model_dump_json())


@pytest.mark.parametrize("function", ["os.system", "os:system()", "a b:c", ":x", "x:"])
def test_a_function_in_a_definition_has_a_module_and_a_name(function: str) -> None:
    text = Workflow("flow", id="flow").add("a", plain).definition().model_dump_json()
    with pytest.raises(BadInput, match="function"):
        parse(FlowDefinition, text.replace("tests.kit.authors.work:plain", function))


@pytest.mark.long
def test_an_authors_module_loads_neither_temporal_nor_a_database() -> None:
    heavy = "{'temporalio', 'sqlalchemy', 'kubernetes'}"
    code = f"import sys, crawler_lifecycle.flows; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
