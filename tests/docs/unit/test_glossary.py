"""The glossary names classes, fields and functions that exist."""

import re

import pytest

from tests.docs.pages import DOCS, carrier

ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| `([\w.]+)` \| [^|]+ \|$",
    DOCS.joinpath("glossary.md").read_text(),
    re.M,
)


def test_the_glossary_has_its_terms() -> None:
    terms = [term for term, _, _ in ROWS]
    assert 25 <= len(terms) <= 75
    assert len(terms) == len(set(terms))


@pytest.mark.parametrize(("term", "meaning", "path"), ROWS)
def test_a_term_is_a_sentence_and_its_carrier_exists(term: str, meaning: str, path: str) -> None:
    assert meaning.endswith("."), term
    assert carrier(path) is not None
