"""The plugin for pytest on a real stack: its page's example, the graph over the bookshop, and the reference pages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, files_of

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(400)]
EXAMPLES = Path(__file__).parents[2] / "examples"
REFERENCE_PAGES = Path(__file__).parents[1] / "flows"
INI = f"""[pytest]
flow_modules = shop_graph.py oban.py chancy.py {EXAMPLES / "flows" / "bookshop_graph.py"}
flow_queues = default big
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

REFERENCES = """
import chancy
import oban
from crawler_lifecycle.flows import Workflow


def played(flows, workflow):
    ended = flows.wait(flows.push(workflow), timeout=60)
    jobs = flows.run(ended.all_jobs(subs=True))
    assert {job.state for job in jobs} == {"completed"}, [(job.path, job.state, job.reason) for job in jobs]
    return [job.path for job in sorted(jobs, key=lambda job: job.started_at)], ended


def test_the_patterns_run_in_order(flows):
    assert played(flows, oban.b2_sequential())[0] == ["first", "second", "third"]
    assert played(flows, oban.b3_fan_out())[0][0] == "parent"
    assert played(flows, oban.b4_fan_in())[0][-1] == "final"
    order, _ = played(flows, oban.b5_diamond())
    assert (order[0], order[-1]) == ("start", "end")
    first, *between, last = played(flows, oban.b7_numbered([7, 8]))[0]
    # both begin at once, so either may be the first
    assert (first, sorted(between), last) == ("setup", ["process/0", "process/1"], "finish")
    assert played(flows, oban.b8_named())[0][-1] == "merge"
    assert played(flows, chancy.a5_chain().workflow())[0] == ["step_0", "step_1", "step_2"]
    assert played(flows, chancy.a3_add_group())[0][0] == "setup"


def test_pushes_by_the_innermost_client(flows):
    for example in (oban.b1_basic_usage, oban.b6_sub_workflows, oban.b9_cascade, oban.b13_graft):
        workflow = flows.run(example())
        assert flows.wait(workflow.id, timeout=60).state == "completed", example
    notified = flows.run(workflow.all_recorded(names=["notify"]))
    assert notified == {"notify": {"123": {"user_id": 123}, "124": {"user_id": 124}}}


def test_cascades_return_what_the_page_says(flows):
    assert flows.run(played(flows, oban.b11_fan_out_cascade())[1].get_recorded("summarize")) == 5
    merged = flows.run(played(flows, oban.b12_fan_out_over_a_dict())[1].get_recorded("merge"))
    assert merged == ["read https://...", "read https://..."]
    recorded = flows.run(played(flows, oban.b10_context())[1].all_recorded())
    assert recorded["step_2"] == ["batch_size", "environment", "step_1", "user_id"]


def test_workers_ask_for_their_workflow(flows):
    workflow = Workflow().add("extract", oban.Worker.new({})).add("transform", oban.Worker.new({}))
    for name, worker in (("handle", oban.MyWorker), ("jobs", oban.FetchingJobs), ("status", oban.CheckingStatus)):
        workflow.add(name, worker.new({}), deps="transform")
    played(flows, workflow)


def test_workers_cancel_their_workflow(flows):
    workflow = Workflow().add("mine", oban.CancellingTwo.new({}))
    for number in (1, 2, 3):
        workflow.add(f"step_{number}", oban.Worker.new({}), deps="mine")
    ended = flows.wait(flows.push(workflow), timeout=60)
    states = {job.name: job.state for job in flows.run(ended.all_jobs())}
    assert states == {"mine": "completed", "step_1": "completed", "step_2": "cancelled", "step_3": "cancelled"}


def test_a_step_of_a_further_queue(flows):
    workflow = Workflow().add("extract", oban.Worker.new({}).with_options(queue="big"))
    assert played(flows, workflow)[0] == ["extract"]


def test_chancys_wait(flows):
    ended = flows.run(chancy.a2_wait(flows._flows))
    assert [step.state for _, step in ended] == ["succeeded", "succeeded"]
"""


def test_the_page_says_the_settings_of_the_test() -> None:
    """The page names no catalogue, and neither does the test: the fixture takes the examples' catalogue."""
    page = (DOCS / "howto" / "test-flows.md").read_text()
    assert "```ini\n# pytest.ini\n[pytest]\nflow_modules = shop_graph.py\n```\n" in page
    assert "flow_catalogue" not in INI


def test_graphs_run_on_the_fixtures_stack(tmp_path: Path) -> None:
    for name, code in files_of(DOCS / "howto" / "test-flows.md").items():
        if name in ("shop_graph.py", "test_on_a_stack.py"):
            (tmp_path / name).write_text(code)
    (tmp_path / "test_bookshop.py").write_text(BOOKSHOP.format(folder=str(EXAMPLES / "flows")))
    for name in ("oban", "chancy"):
        shutil.copy(REFERENCE_PAGES / f"reference_{name}.py", tmp_path / f"{name}.py")
    (tmp_path / "test_references.py").write_text(REFERENCES)
    (tmp_path / "pytest.ini").write_text(INI)
    # installed, the plugin is an entry point; an older installation of a checkout may lack the entry point
    command = [sys.executable, "-m", "pytest", "-q", "-p", "crawler_lifecycle.pytest_flows", "-p", "no:xdist", "-x"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
    assert list(tmp_path.glob("flow-tests-*")) == []
