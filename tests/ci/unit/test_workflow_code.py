"""Workflow code asks no clock, no chance and no file: live workers do not check it (`assembly/plugin.py`)."""

import ast
from pathlib import Path

import crawler_lifecycle

FORBIDDEN_MODULES = {"os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid"}
SHARED = ("generation", "options", "visibility")  # of the modules about Temporal
FORBIDDEN_CALLS = {"now", "today", "utcnow", "open", "uuid4"}


def test_no_module_of_the_workflows_reaches_outside() -> None:
    product = Path(crawler_lifecycle.__file__).parent
    shared = [product / "temporal" / f"{name}.py" for name in SHARED]
    modules = [
        *product.glob("*/workflows/*.py"),
        product / "audits" / "workflows.py",
        product / "delivery" / "workflows.py",
        *shared,
    ]
    assert len(modules) >= 18
    assert [line for path in modules for line in _faults(path)] == []


def _faults(path: Path) -> list[str]:
    faults = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            faults += [f"{path.name}: imports {name}" for name in names & FORBIDDEN_MODULES]
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            faults.append(f"{path.name}: imports from {node.module}")
        if isinstance(node, ast.Call) and _name(node.func) in FORBIDDEN_CALLS and _owner(node.func) != "workflow":
            faults.append(f"{path.name}:{node.lineno}: calls {_name(node.func)}")
    return faults


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _owner(function: ast.expr) -> str:
    return getattr(function.value, "id", "") if isinstance(function, ast.Attribute) else ""
