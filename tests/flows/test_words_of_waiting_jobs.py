"""Bare codes and doubled words: waiting steps had no sentence, available jobs no cause.

An error about a result had a link of pydantic, and the refusal of a partial an address in memory.
"""

import functools
from datetime import timedelta
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import RunningJob, Workflow, crawl
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.hosts.calling import result_check
from crawler_lifecycle.hosts.outcomes import result_end
from crawler_lifecycle.model.flow_states import EndKind
from tests.client.conftest import Hand
from tests.kit.authors.work import greet, plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "Bare codes and doubled words: waiting steps had no sentence, available jobs no cause"
)

MODULE = plain.__module__
WAITS = f"host:{MODULE}: no host has taken the step yet (crawlctl host {MODULE})"


@pytest.fixture
def flow(stored: SqlStore) -> Hand:
    workflow = Workflow(id="w").add("load", plain).add("shop", crawl("books"))
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    assert flow.flow.epoch  # a supervisor takes the flow up, and starts nothing
    return flow


@pytest.mark.long
def test_a_step_without_a_host_names_the_command(flow: Hand, crawlctl: Crawlctl) -> None:
    assert WAITS in crawlctl("flow", "why", "w", "load").stdout
    jobs = crawlctl("flow", "jobs", "w").stdout
    assert f"host:{MODULE}: no host has taken the step" in jobs
    assert "start: no worker has taken the crawl yet" in jobs


def test_a_job_behind_others_names_them(stored: SqlStore, crawlctl: Crawlctl) -> None:
    """Only `why` knew them: the list said `dependencies`."""
    inner = Workflow().add("de", crawl("books"))
    graph = Workflow(id="late").add_workflow("sites", inner).add("prices", crawl("books"))
    stored.flow_doors.push(PushFlow(definition=graph.add("load", plain, deps=["sites", "prices"]).definition()))
    assert crawlctl("flow", "jobs", "late").stdout.endswith("  waits for sites, prices\n")
    assert crawlctl("flow", "jobs", "late", "load").stdout.endswith("  dependencies\n")


def test_jobs_before_a_supervisor_say_so(stored: SqlStore, crawlctl: Crawlctl) -> None:
    stored.flow_doors.push(PushFlow(definition=Workflow(id="new").add("load", plain).definition()))
    assert "no_supervisor: no worker continues the flow" in crawlctl("flow", "jobs", "new").stdout


@pytest.mark.long
def test_jobs_whose_dependencies_have_ended_wait_for_a_worker(stored: SqlStore, crawlctl: Crawlctl) -> None:
    """The worker was away in mid-flow, and the list blamed the dependencies."""
    inner = Workflow().add("x", plain).add("y", plain, deps="x")
    graph = Workflow(id="mid").add("a", plain).add("b", plain, deps="a").add_workflow("sub", inner, deps="a")
    graph.add("last", plain, deps=["sub", "b"])
    stored.flow_doors.push(PushFlow(definition=graph.definition()))
    flow = Hand(stored, "mid", stored.flow_records.uid_of("mid"))

    def unsupervised(*options: str) -> list[str]:
        lines = crawlctl("flow", "jobs", "mid", *options).stdout.splitlines()
        return [line.split()[0] for line in lines if "no_supervisor: no worker continues the flow" in line]

    flow.go_on()
    assert unsupervised() == []
    flow.end(flow.last("a"))
    assert unsupervised() == ["b", "sub/x"]
    assert unsupervised("b") == ["b"]
    assert unsupervised("last") == unsupervised("sub/y") == []
    assert unsupervised("--status", "suspended") == ["b", "sub/x"]
    flow.go_on()
    assert unsupervised() == []
    flow.end(flow.last("b"), flow.last("sub/x"))
    assert unsupervised() == ["sub/y"]
    flow.play()
    assert unsupervised() == []


def test_a_push_without_news_says_so(stored: SqlStore, crawlctl: Crawlctl, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(Workflow(id="again").add("load", plain).definition().model_dump_json())
    assert crawlctl("flow", "push", str(file)).stdout.startswith("flow again: made with 1 job")
    assert crawlctl("flow", "push", str(file)).stdout.startswith("flow again: unchanged")


def test_an_unknown_step_has_a_sentence(flow: Hand, crawlctl: Crawlctl) -> None:
    flow.store.step_ledger.note_cause(flow.uid, [flow.row("load").number], "unknown_step")
    assert "unknown_step: no host's module has the function" in crawlctl("flow", "why", "w", "load").stdout


def test_a_job_under_way_is_not_executing_twice(flow: Hand, crawlctl: Crawlctl) -> None:
    flow.go_on()
    line = crawlctl("flow", "why", "w", "load").stdout.splitlines()[0]
    assert line.startswith("load is executing since ")
    assert line.count("executing") == 1


def test_a_step_of_a_silent_host_says_so(flow: Hand, crawlctl: Crawlctl) -> None:
    silent = f"silent_host:{MODULE}: its host is silent, and no other host of {MODULE} has taken over"
    flow.go_on()
    flow.begin_steps(flow.last("load"), lasts=timedelta(minutes=1))
    assert "silent_host" not in crawlctl("flow", "why", "w").stdout
    flow.store.step_ledger.renew("host", timedelta(seconds=-1))
    assert silent in crawlctl("flow", "why", "w").stdout
    assert silent in crawlctl("flow", "why", "w", "load").stdout
    assert f"silent_host:{MODULE}: its host is silent" in crawlctl("flow", "jobs", "w").stdout
    flow.begin_steps(flow.last("load"), token="next")
    assert "silent_host" not in crawlctl("flow", "why", "w").stdout
    flow.store.step_ledger.renew("next", timedelta(seconds=-1))
    assert silent in crawlctl("flow", "why", "w", "load").stdout


def test_a_flow_with_the_name_of_its_step_has_no_host(stored: SqlStore, crawlctl: Crawlctl) -> None:
    stored.flow_doors.push(PushFlow(definition=Workflow(id="load").add("load", plain).definition()))
    flow = Hand(stored, "load", stored.flow_records.uid_of("load"))
    flow.go_on()
    flow.begin_steps(flow.last("load"), lasts=timedelta(seconds=-1))
    flow_line, step_line, *_ = crawlctl("flow", "why", "load").stdout.splitlines()
    assert "silent_host" not in flow_line
    assert "silent_host" in step_line


def returns_a_number() -> int:
    return 1


def test_a_mismatch_has_no_address() -> None:
    job = RunningJob(flow_id="w", path="a", args={}, attempt=1, generation=1)
    end = result_end("no number", job, 1000, result_check(returns_a_number))
    assert (end.kind, end.reason) == (EndKind.FAILED, "result_mismatch")
    assert "valid integer" in (end.error or "")
    assert "https://" not in (end.error or "")


def test_a_partial_has_the_name_of_its_function() -> None:
    with pytest.raises(BadInput, match=r"^job of 'a': greet is a partial: "):
        Workflow().add("a", functools.partial(greet, "ann"))
