"""A misspelt job was refused without the job that was meant, and its results were an empty object with status 0.

The refusal of a lambda or a local function did not name the job that the function was given for.
"""

import json
from typing import Any

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.names import near_name
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Sequence, Workflow, crawl, each_task, worker
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.client.conftest import Hand
from tests.kit.authors.work import item_and_context, plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A misspelt job was refused without the job that was meant, and its results were an empty object with status 0"
)


def refused(build: Any) -> str:
    with pytest.raises(BadInput) as refusal:
        build()
    return refusal.value.message


def test_a_misspelt_dependency_names_the_job_that_was_meant() -> None:
    workflow = Workflow().add("fetch", plain)
    assert refused(lambda: workflow.add("load", plain, deps="fetchh")).endswith("; did you mean 'fetch'?")
    assert "did you mean" not in refused(lambda: workflow.add("load", plain, deps="prices"))
    late = Workflow(check_deps=False).add("load", plain, deps="fetchh").add("fetch", plain)
    assert refused(late.check) == "deps: 'load' depends on 'fetchh', which is not in the flow; did you mean 'fetch'?"


def test_a_push_names_a_job_inside_of_the_level_alone() -> None:
    inner = Workflow(check_deps=False).add("parse", plain, deps="fetchh")
    outer = Workflow().add("fetch", plain).add_workflow("site", inner)
    assert "did you mean" not in refused(outer.check), "a job cannot depend on a job outside of its level"
    inner.add("fetches", plain)
    assert refused(outer.check).endswith("; did you mean 'site/fetches'?")


def test_a_job_without_its_level_is_found_on_another_level() -> None:
    paths = ["fetch/de", "fetch/fr", "parse", "load"]
    assert near_name("de", paths) == "fetch/de"
    assert near_name("prase", paths) == "parse"
    assert near_name("fetch/ed", paths) == "fetch/de"
    assert near_name("nothing", paths) is None


@pytest.mark.parametrize("how", ["add", "add_cascade", "add_graft"])
def test_the_refusal_of_a_function_names_its_job(how: str) -> None:
    assert refused(lambda: getattr(Workflow(), how)("prices", lambda context: None)).startswith(
        "job of 'prices': test_the_refusal_of_a_function_names_its_job"
    )


def test_the_refusal_of_an_item_names_its_place() -> None:
    def inner(item: object, context: object) -> None:
        """Stand for a function that no other process can find."""

    workflow = Workflow().add("shop", crawl("books"))
    assert refused(lambda: workflow.add_many("many", [plain, inner])).startswith("job of 'many/1': ")
    assert refused(lambda: workflow.add_cascade("fan", ([1], inner))).startswith("job of 'fan': ")
    assert refused(lambda: workflow.add_cascade("tasks", each_task("shop", inner))).startswith("job of 'tasks': ")
    assert refused(lambda: workflow.add_cascade("one", item_and_context)).startswith("job of 'one': ")
    assert refused(lambda: Sequence("s", [plain, inner])).startswith("job of 'step_1': ")


def test_a_mark_without_a_job_names_the_function() -> None:
    with pytest.raises(BadInput, match=r"job: .*<locals>\.Local is defined inside a function"):

        @worker()
        class Local:
            def process(self, job: object) -> None: ...


@pytest.fixture
def played(stored: SqlStore) -> Hand:
    """A flow with a completed job, a completed job without a result, an executing job and two suspended jobs."""
    workflow = Workflow(id="w").add("load", plain).add("silent", plain).add("slow", plain)
    workflow.add_workflow("sites", Workflow().add("de", plain).add("fr", plain), deps="slow")
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    flow.go_on()
    flow.end(flow.last("load"), result="7")
    flow.end(flow.last("silent"))
    return flow


@pytest.mark.long
def test_results_of_an_unknown_job_are_an_error(played: Hand, crawlctl: Crawlctl) -> None:
    result = crawlctl("flow", "results", "w", "laod")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "Error: flow 'w' has no job 'laod'; did you mean 'load'?\n"
    for command in ("jobs", "why", "cancel", "retry"):
        assert "did you mean 'load'?" in crawlctl("flow", command, "w", "laod").stderr, command


def test_a_job_without_a_result_says_so(played: Hand, crawlctl: Crawlctl) -> None:
    assert json.loads(crawlctl("flow", "results", "w", "load").stdout) == {"load": 7}
    result = crawlctl("flow", "results", "w", "load", "silent")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"load": 7})
    assert result.stderr == "'silent' has no result: the job is completed, and has returned nothing\n"
    result = crawlctl("flow", "results", "w", "load", "slow", "sites", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (6, {"load": 7, "sites": {}})
    assert json.loads(result.stderr)["message"] == (
        "'slow' has no result: the job is executing; 'sites' has no result: its jobs are 2 suspended"
    )
    whole = crawlctl("flow", "results", "w")
    assert (whole.exit_code, whole.stderr) == (0, ""), "only named jobs are told"
