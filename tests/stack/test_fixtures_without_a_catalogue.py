"""The pytest fixture `flows` failed without a catalogue, also for a graph of steps: the stack refused an empty file.

The page about tests named a catalogue that no reader had.
"""

import pytest

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.stack.plan import DEFAULT

pytestmark = pytest.mark.regression(
    "The pytest fixture `flows` failed without a catalogue, as the stack refused an empty file"
)


def test_a_stack_without_a_catalogue_has_the_examples() -> None:
    assert "bookshop" in Catalogue.load(DEFAULT).names()
