"""Choose among the cases of a test: a few run in `make test`, the others in a target for what takes longer."""

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], kept: Collection[Any], others: pytest.MarkDecorator = pytest.mark.sequences) -> list[Any]:
    """Return all cases as parameters. `kept`: the cases for `make test`; `others`: the mark for the other cases."""
    return [case if case in kept else pytest.param(case, marks=others) for case in cases]


def examples(number: int) -> int:
    """Return how many examples Hypothesis makes: the number in `make test`, a multiple in `make test-sequences`."""
    return number * int(os.environ.get("EXAMPLES", "1"))
