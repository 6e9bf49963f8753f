"""The Python code in the documents about flows runs as it stands there.

A block names its file in its first line. Blocks with the same name are parts of one file, in their order.
"""

import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.client import WorkflowPlugin
from crawler_lifecycle.testing import MemoryFlows, run_inline
from tests.unit.testing.pages import DOCS, files_of

PAGES = ["tutorial/first-graph.md", "howto/test-flows.md", "howto/test-managers.md", "howto/manager-rules.md"]
PORTS = DOCS / "howto" / "flows-from-chancy-and-oban.md"
FIRST_MANAGER = DOCS / "tutorial" / "first-manager.md"
INSIDE_OF_CHANCY = ["process_workflow", "get_scope", "migrate_key", "migrate_package", "api_plugin", "run"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    files = files_of(DOCS / page)
    files.pop("test_on_a_stack.py", None)  # tests/process/test_flows_fixture.py
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    expected = sum(len(re.findall(r"^def test_", code, re.M)) for code in files.values())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{expected} passed" in done.stdout


def test_the_pictures_text_is_the_graphs(tmp_path: Path) -> None:
    page = DOCS / "tutorial" / "first-graph.md"
    (tmp_path / "my_graph.py").write_text(files_of(page)["my_graph.py"])
    code = "from my_graph import workflow; print(workflow().to_mermaid())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip() in page.read_text()


def commands() -> set[str]:
    pages = [DOCS / page for page in PAGES] + [PORTS, FIRST_MANAGER]
    lines = "\n".join(page.read_text() for page in pages)
    blocks = re.findall(r"^(?:\$ )?(?:\.venv/bin/)?(crawlctl [^#\n]+)", lines, re.M)
    return {line.strip() for line in [*blocks, *re.findall(r"`(crawlctl \w[^`]+)`", lines)]}


@pytest.mark.parametrize("line", sorted(commands()))
def test_a_command_has_the_options_that_a_page_names(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my_graph.py", "ported.py", "FILE"):
        (tmp_path / name).write_text("")
    _, *words = shlex.split(line)
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        name, *words = words
        inner = command.get_command(click.Context(command), name)
        assert inner is not None, name
        command = inner
    if words:  # a command alone is a name in a sentence
        assert command.make_context(command.name, words).args == []


def test_083_the_inside_of_chancys_plugin_has_no_counterpart() -> None:
    (line,) = [line for line in PORTS.read_text().splitlines() if "process_workflow" in line]
    assert [name for name in INSIDE_OF_CHANCY if f"`{name}`" not in line] == []
    assert [name for name in INSIDE_OF_CHANCY if hasattr(WorkflowPlugin, name)] == []


async def test_the_ports_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("crawler_lifecycle.client.Flows", MemoryFlows)
    for name, code in files_of(PORTS).items():
        (tmp_path / name).write_text(code)
    await import_module("ported").main()
    assert capsys.readouterr().out.split() == ["Top", "Bottom"]
    result = run_inline(import_module("ported_too").workflow()).assert_completed()
    assert result.recorded("notify") == {"users": {"0": 1, "1": 2}}
