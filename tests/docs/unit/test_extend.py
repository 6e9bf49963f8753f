"""The page for contributors names files, classes and constants that exist."""

import re

import pytest

from tests.docs.pages import DOCS, carrier

ROOT = DOCS.parent
PACKAGE = ROOT / "crawler_lifecycle"
PAGE = re.sub(r"^ *```.*?^ *```", "", DOCS.joinpath("internals/extend.md").read_text(), flags=re.M | re.S)
NAMED = sorted(set(re.findall(r"`([^`]+)`", PAGE)))
FILES = [
    name
    for name in NAMED
    if re.fullmatch(r"[\w./]+(/|\.\w+)", name) and "/" in name and not re.search("NAME|000N", name)
]
DOTTED = [
    name for name in NAMED if re.fullmatch(r"[a-z]\w*(\.\w+)+", name) and (PACKAGE / name.partition(".")[0]).exists()
]
OTHERS = {"CRAWLER_GROUP__FIELD", "ordered_values"}  # a placeholder, and a method of SQLAlchemy
# constants and classes, and functions of several words or of a module's own
CODE = [name for name in NAMED if re.fullmatch(r"[A-Z]\w+|_[a-z]\w+|[a-z]+(_[a-z]+)+", name) and name not in OTHERS]


def test_the_page_names_much_of_our_code() -> None:
    assert len(FILES) > 40
    assert len(CODE) > 30
    assert DOTTED


@pytest.mark.parametrize("path", FILES)
def test_a_file_exists(path: str) -> None:
    assert (ROOT / path).exists() or (PACKAGE / path).exists()


@pytest.mark.parametrize("path", DOTTED)
def test_an_object_with_its_place_exists(path: str) -> None:
    assert carrier(path) is not None


def test_names_are_defined_in_the_code() -> None:
    folders = (PACKAGE, ROOT / "tests")
    sources = [path for folder in folders for kind in ("py", "js") for path in folder.rglob(f"*.{kind}")]
    sources.append(ROOT / "pyproject.toml")
    defined = set[str]()
    for path in sources:
        words = r"^\s*(?:@?(?:export |async )*(?:class|def|const|function) )?(\w+)"
        defined.update(re.findall(words, path.read_text(), re.M))
    assert [name for name in CODE if name not in defined] == []
