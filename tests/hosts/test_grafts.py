"""Grafters, whose sub-workflow is attached before their end."""

from crawler_lifecycle.flows import Workflow
from tests.hosts import authors
from tests.hosts.attempts import attempts
from tests.hosts.supervised import Hosted


async def test_a_returned_workflow_takes_the_place(host: Hosted) -> None:
    flow = await host.play(
        Workflow("graft").add_graft("graft", authors.graft).add_cascade("last", authors.nothing, deps="graft")
    )
    assert set(flow.states) == {"graft", "graft/mails/0", "graft/mails/1", "last"}
    assert set(flow.states.values()) == {"completed"}
    assert await host.result(flow, "graft/mails/1") == "mail to bob, attempt 1"
    assert authors.calls == ["last"]
    assert [ended.has_news for ended in host.ends] == [True, False, False]


async def test_a_graft_by_call_and_no_graft(host: Hosted) -> None:
    flow = await host.play(
        Workflow("graft")
        .add_graft("call", authors.graft_by_call)
        .add_graft("none", authors.graft_nothing)
        .add_cascade("last", authors.nothing, deps=["call", "none"])
    )
    assert set(flow.states) == {"call", "call/one", "none", "last"}
    assert authors.calls[-1] == "last"


async def test_a_sub_workflow_that_the_flow_refuses_fails_the_grafter(host: Hosted) -> None:
    flow = await host.play(Workflow("graft").add_graft("bad", authors.graft_badly))
    assert flow.states == {"bad": "discarded"}
    [attempt] = await attempts(flow, "bad")
    assert attempt.outcome == "BadInput"
    assert "missing" in (attempt.error or "")


async def test_only_a_grafter_may_graft(host: Hosted) -> None:
    flow = await host.play(Workflow("graft").add_cascade("plain", authors.graft))
    [attempt] = await attempts(flow, "plain")
    assert "a workflow is only for a job of add_graft to return" in (attempt.error or "")
