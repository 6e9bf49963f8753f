"""The glossary names classes, fields and functions that exist."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| `([\w.]+)` \| [^|]+ \|$",
    Path(__file__).parents[3].joinpath("docs/glossary.md").read_text(),
    re.M,
)


def carrier(path: str) -> Any:
    """Return the object at a dotted path below the package; a field of a model or dataclass counts."""
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        try:
            place: Any = import_module(".".join(["crawler_lifecycle", *parts[:size]]))
        except ModuleNotFoundError:
            continue
        for name in parts[size:]:
            fields = {**getattr(place, "model_fields", {}), **getattr(place, "__dataclass_fields__", {})}
            place = fields[name] if name in fields else getattr(place, name)
        return place
    raise ModuleNotFoundError(path)


def test_the_glossary_has_its_terms() -> None:
    terms = [term for term, _, _ in ROWS]
    assert 25 <= len(terms) <= 75
    assert len(terms) == len(set(terms))


@pytest.mark.parametrize(("term", "meaning", "path"), ROWS)
def test_a_term_is_a_sentence_and_its_carrier_exists(term: str, meaning: str, path: str) -> None:
    assert meaning.endswith("."), term
    assert carrier(path) is not None
