"""The pytest fixture `flows` failed without a catalogue, also for a graph of steps: the stack refused an empty file.

The page about tests named a catalogue that no reader had.
"""

from pathlib import Path

import pytest

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.stack import plan

pytestmark = pytest.mark.regression(
    "The pytest fixture `flows` failed without a catalogue, as the stack refused an empty file"
)


def test_a_stack_without_a_catalogue_has_the_examples(tmp_path: Path) -> None:
    path = plan.catalogue_in(tmp_path)
    assert "bookshop" in Catalogue.load(path).names()
    assert list(tmp_path.iterdir()) == []


def test_a_stack_outside_of_a_checkout_has_a_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "DEFAULT", tmp_path / "missing.toml")
    assert Catalogue.load(plan.catalogue_in(tmp_path)).names() == ["placeholder"]
