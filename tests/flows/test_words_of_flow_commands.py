"""Commands for flows named options that they do not have, and took no notice of words that mean nothing.

`check` named --flow, a file that was missing was taken for a flow's id, a folder did not exist, an unknown item was an
empty table, and a stop of an ended flow cancelled 0 jobs.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.kit.authors.work import plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "Commands for flows named options that they do not have, and took no notice of words that mean nothing"
)

FILE = """
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.managers import CrawlManager


class A(CrawlManager):
    name, spider = "a", "books"


class B(CrawlManager):
    name, spider = "b", "books"
"""
FUNCTIONS = """
from crawler_lifecycle.flows import Workflow


def load() -> int:
    return 1


def nightly() -> Workflow:
    return Workflow("nightly", id="n").add("load", load)


weekly = nightly()
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """The place of an author's file, whose module is forgotten after the test."""
    before, path = list(sys.path), tmp_path / "two_flows.py"
    yield path
    sys.path[:] = before
    sys.modules.pop(path.stem, None)


@pytest.fixture
def manager(stored: SqlStore, crawlctl: Crawlctl, file: Path) -> Crawlctl:
    """A manager's flow `m/a` without items."""
    file.write_text(FILE)
    assert crawlctl("flow", "start", f"{file}:A", "--id", "m").exit_code == 0
    return crawlctl


def test_the_targets_are_named_as_they_are_typed(crawlctl: Crawlctl, file: Path) -> None:
    file.write_text(FILE)
    assert crawlctl("flow", "start", str(file)).stderr == (
        f"Error: FILE: {file} has several flows: name {file}:A or {file}:B\n"
    )
    for command in ("check", "push"):
        assert crawlctl("flow", command, str(file)).stderr == (
            f"Error: FILE: {file} has several flows: choose with --flow A or --flow B\n"
        )
    assert crawlctl("flow", "check", str(file), "--flow", "A").stdout.startswith("manager ")


def test_functions_are_among_the_names(crawlctl: Crawlctl, file: Path) -> None:
    file.write_text(FUNCTIONS)
    assert crawlctl("flow", "graph", str(file), "--flow", "absent").stderr == (
        f"Error: --flow: {file} has no 'absent': choose with --flow nightly or --flow weekly\n"
    )


def test_a_missing_file_is_no_flow(crawlctl: Crawlctl, file: Path, tmp_path: Path) -> None:
    for word in (str(file), str(tmp_path / "absent.json")):
        result = crawlctl("flow", "graph", word)
        assert (result.exit_code, result.stderr) == (2, f"Error: FILE: {word}: no such file\n")
    result = crawlctl("flow", "push", str(tmp_path))
    assert result.stderr == f"Error: FILE: {tmp_path} is a folder, and not a .py or .json file\n"


def test_a_graph_is_drawn_from_json(crawlctl: Crawlctl, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    inner = Workflow().add("parse", plain)
    workflow = Workflow("w", id="w").add("load", plain).add_workflow("site", inner, deps="load")
    good.write_text(workflow.definition().model_dump_json())
    drawn = crawlctl("flow", "graph", str(good))
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout.strip() == workflow.to_mermaid(states=False).strip()
    bad.write_text("{")
    for command in ("graph", "push"):
        result = crawlctl("flow", command, str(bad))
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: FILE: {bad}: Invalid JSON")


def test_an_unknown_item_is_not_found(manager: Crawlctl) -> None:
    for options in ([], ["--attempts"], ["--status", "failed"]):
        result = manager("flow", "jobs", "m/a", "99", *options)
        assert result.stderr.startswith("Error: flow 'm/a' has no item 99 (see `crawlctl flow show m/a "), options
        assert result.exit_code == 3, options
    assert manager("flow", "jobs", "m/a", "--status", "delayed").exit_code == 0
    assert "delayed" in manager("flow", "jobs", "--help").stdout


def test_a_stop_says_what_happens(manager: Crawlctl, stored: SqlStore) -> None:
    first = manager("flow", "stop", "m/a").stdout.splitlines()[0]
    assert first == "flow m/a: the manager is cancelled with its waiting items, crawls under way are asked to end"
    stored.flow_doors.push(PushFlow(definition=Workflow(id="w").add("load", plain).definition()))
    assert manager("flow", "stop", "w").stdout.startswith("flow w: 1 job cancelled, those under way")


@pytest.mark.long
def test_a_stop_of_an_ended_flow_says_so(manager: Crawlctl, stored: SqlStore) -> None:
    stored.flow_doors.push(PushFlow(definition=Workflow(id="w").add("load", plain).definition()))
    assert manager("flow", "stop", "w").exit_code == 0
    state = json.loads(manager("flow", "show", "w", "--json").stdout)["status"]["state"]
    again = manager("flow", "stop", "w")
    assert again.stderr.startswith(f"Error: flow 'w' is {state} already (see `crawlctl flow show w ")
    assert again.exit_code == 6
    assert manager("flow", "cancel", "w").exit_code == 6
    assert manager("flow", "stop", "w", "--leave", "--json").exit_code == 6


def test_words_that_mean_no_job(manager: Crawlctl, stored: SqlStore) -> None:
    workflow = Workflow(id="w").add("load", plain).add_approval("release", deps="load")
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    assert "did you mean 'release'?" in manager("flow", "approve", "w", "relase").stderr
    for command in ("cancel", "retry"):
        result = manager("flow", command, "w", "")
        assert (result.exit_code, result.stderr) == (2, "Error: JOBS: expected names of jobs, not an empty word\n")
