"""Tests are no libraries: what several need is in a module of its own."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


def modules(path: Path) -> set[str]:
    """Return the full names of the modules that this file imports, and of what it imports from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_test(module: str) -> bool:
    path = TESTS.parent / Path(*module.split("."))
    return path.name.startswith("test_") and path.with_suffix(".py").exists()


@pytest.mark.long
def test_no_test_is_imported() -> None:
    importing = {
        f"{path.relative_to(TESTS.parent)} imports {module}"
        for folder in (TESTS, TESTS.parent / "bench")
        for path in folder.rglob("*.py")
        for module in modules(path)
        if is_test(module)
    }
    assert importing == set()


def test_what_is_looked_for_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text("from tests.ci.unit import test_imports_of_tests\nimport tests.ci.unit.test_shards as shards\n")
    assert {module for module in modules(path) if is_test(module)} == {
        "tests.ci.unit.test_imports_of_tests",
        "tests.ci.unit.test_shards",
    }
