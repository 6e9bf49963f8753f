"""The plugin for pytest on a real stack: the example of its page, and the graph over the bookshop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.testing.pages import DOCS, files_of

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(400)]
EXAMPLES = Path(__file__).parents[2] / "examples"
INI = f"""[pytest]
flow_modules = shop_graph.py {EXAMPLES / "flows" / "bookshop_graph.py"}
flow_catalogue = {EXAMPLES / "catalogue.toml"}
"""
BOOKSHOP = """
import json
import sys

sys.path.insert(0, {folder!r})
import bookshop_graph


def test_the_bookshops_graph_runs(flows, tmp_path, monkeypatch):
    monkeypatch.setattr(bookshop_graph, "OUTPUT", tmp_path / "books.json")
    graph = bookshop_graph.workflow()
    ended = flows.wait(flows.push(graph), timeout=180)
    jobs = {{job.path: job.state for job in flows.run(graph.all_jobs(subs=True))}}
    assert ended.state == "completed", jobs
    assert flows.run(graph.get_recorded("load"))["books"] == 60
    assert len(json.loads((tmp_path / "books.json").read_text())) == 60
    assert len([path for path in jobs if path.startswith("parts/books_")]) == 6
"""


def test_graphs_run_on_the_fixtures_stack(tmp_path: Path) -> None:
    for name, code in files_of(DOCS / "howto" / "test-flows.md").items():
        if name in ("shop_graph.py", "test_on_a_stack.py"):
            (tmp_path / name).write_text(code)
    (tmp_path / "test_bookshop.py").write_text(BOOKSHOP.format(folder=str(EXAMPLES / "flows")))
    (tmp_path / "pytest.ini").write_text(INI)
    # installed, the plugin is an entry point; an older installation of a checkout may lack the entry point
    command = [sys.executable, "-m", "pytest", "-q", "-p", "crawler_lifecycle.pytest_flows", "-p", "no:xdist", "-x"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert list(tmp_path.glob("flow-tests-*")) == []
