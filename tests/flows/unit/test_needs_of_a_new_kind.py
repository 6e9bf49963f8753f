"""A field that is added to `Need` is never dropped silently."""

from dataclasses import fields

import pytest

from crawler_lifecycle.flows.authors.dependencies import as_dependency
from crawler_lifecycle.flows.model.definition import Need
from crawler_lifecycle.flows.rules.compiling import OF_TARGETS, Numbers
from crawler_lifecycle.flows.rules.rows import NeedRow, Target


class NewNeed(Need):
    unless_failed: bool = False


NEW = NewNeed(on=("a",), unless_failed=True)


def test_a_row_has_every_field_of_a_need() -> None:
    assert {field.name for field in fields(NeedRow)} | set(OF_TARGETS) == set(Need.model_fields)
    numbers = Numbers({"a": 1}, {}, 2, 1, "")
    quorum = Need(on=("a",), share=0.5, count=1, wait=True)
    assert numbers.needs([quorum], "b") == (NeedRow((Target(1),), share=0.5, count=1, wait=True),)
    with pytest.raises(TypeError, match="unless_failed"):
        numbers.needs([NEW], "b")


def test_an_author_gets_no_other_dependency_for_an_unknown_kind() -> None:
    assert as_dependency(NewNeed(on=("a",))) == "a"
    with pytest.raises(ValueError, match="unless_failed"):
        as_dependency(NEW)
