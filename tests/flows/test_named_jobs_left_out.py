import json

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.records import LeftOut
from crawler_lifecycle.flows.model.requests import Downstream, PushFlow, RetryMembers
from crawler_lifecycle.flows.rules.interventions import COMPLETED, NOT_ENDED, cancel, retry
from tests.client.conftest import Hand
from tests.flows.plays import NOW, Play
from tests.kit.authors.work import plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    'A retry of a completed job said "0 retried" with status 0, and so did a cancel of ended jobs'
)


@pytest.fixture
def played(stored: SqlStore) -> Hand:
    """A flow with a completed, a failed, an executing and two suspended jobs."""
    workflow = Workflow(id="w").add("load", plain).add("wrong", plain).add("slow", plain)
    workflow.add_workflow("sites", Workflow().add("de", plain).add("fr", plain), deps="slow")
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    flow.go_on()
    flow.end(flow.last("load"), result="7")
    flow.cancel("wrong")
    flow.end(flow.last("wrong"))
    return flow


def test_a_retry_names_the_jobs_that_it_leaves_out(played: Hand, crawlctl: Crawlctl) -> None:
    result = crawlctl("flow", "retry", "w", "load")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (6, "flow w: 0 jobs retried")
    assert result.stderr == f"Error: not retried: 'load' is completed already: {COMPLETED}\n"
    result = crawlctl("flow", "retry", "w", "wrong", "slow", "sites", "--json")
    assert (result.exit_code, played.states["wrong"]) == (6, "available"), "the others are retried all the same"
    answer, failure = json.loads(result.stdout), json.loads(result.stderr)
    assert (answer["count"], failure["error"], failure["exit_status"]) == (1, "refused", 6)
    assert answer["left_out"] == [
        {"job": "slow", "reason": f"is executing: {NOT_ENDED}"},
        {"job": "sites", "reason": f"has 2 suspended jobs: {NOT_ENDED}"},
    ]


def test_the_advice_of_a_refused_retry_helps(played: Hand, crawlctl: Crawlctl) -> None:
    result = crawlctl("flow", "retry", "w", "load", "--completed")
    assert (result.exit_code, result.stderr, played.states["load"]) == (0, "", "available")
    whole = crawlctl("flow", "retry", "w")
    assert (whole.exit_code, whole.stderr) == (0, ""), "without names, no job is left out"


def test_a_cancel_names_the_jobs_that_had_ended(played: Hand, crawlctl: Crawlctl) -> None:
    result = crawlctl("flow", "cancel", "w", "load", "wrong", "sites")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (6, "flow w: 2 jobs cancelled")
    assert result.stderr == "Error: not cancelled: 'load' is completed already\n"
    again = crawlctl("flow", "cancel", "w", "sites")
    assert (again.exit_code, again.stderr) == (0, ""), "a cancel may be repeated after a lost answer"
    assert crawlctl("flow", "cancel", "w").exit_code == 0


@pytest.mark.long
def test_a_refusal_names_twenty_jobs(stored: SqlStore, crawlctl: Crawlctl) -> None:
    names = [f"job {number}" for number in range(25)]
    workflow = Workflow(id="many")
    for name in names:
        workflow.add(name, plain)
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    refusal = crawlctl("flow", "retry", "many", *names).stderr
    assert (refusal.count(NOT_ENDED), refusal.endswith("; and 5 more\n")) == (20, True)


def test_jobs_behind_a_completed_job_are_no_reason_to_leave_the_job_out() -> None:
    play = Play(Workflow().add("a", plain).add("b", plain, deps="a"))
    play.run()
    everything = retry(play.ledger, RetryMembers(paths=("a",), downstream=Downstream.ALL), NOW)
    assert (everything.count, everything.left_out) == (2, ())
    nothing = retry(play.ledger, RetryMembers(paths=("a", "b")), NOW)
    assert (nothing.count, nothing.flow, [unchanged.job for unchanged in nothing.left_out]) == (0, None, ["a", "b"])
    assert cancel(play.ledger, ["b"], NOW).left_out == (LeftOut(job="b", reason="is completed already"),)
    with pytest.raises(NotFound):
        cancel(play.ledger, ["c"], NOW)
