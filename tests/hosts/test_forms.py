"""Every form of a call, with its values and results."""

import asyncio
from datetime import UTC, datetime

from crawler_lifecycle.flows import Workflow, job
from tests.hosts import authors
from tests.hosts.supervised import Hosted


async def test_a_chain_by_context_and_by_parameters(host: Hosted) -> None:
    flow = await host.play(
        Workflow("etl")
        .add_context({"operator": "ann", "factor": 10})
        .add_cascade("extract", authors.extract)
        .add_cascade("transform", authors.transform, deps="extract")
        .add("load", authors.load, deps=["extract", "transform"])
    )
    assert set(flow.states.values()) == {"completed"}
    assert await host.result(flow, "extract") == {
        "records": [1, 2, 3],
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "by": "ann",
    }
    assert await host.result(flow, "load") == "ann: 60"


async def test_items_are_built_as_their_annotations_say(host: Hosted) -> None:
    books = {"a": authors.Book(title="Emma", year=1815), "b": {"title": "Walden"}}
    flow = await host.play(
        Workflow("titles")
        .add_cascade("titles", (books, authors.title))
        .add_cascade("read", authors.read_titles, deps="titles")
    )
    assert await host.result(flow, "titles/a") == "a: Emma (1815)"
    assert await host.result(flow, "titles/b") == "b: Walden (1900)"
    assert await host.result(flow, "read") == {"first": "a: Emma (1815)", "number": 2}


async def test_keywords_are_checked_and_built(host: Hosted) -> None:
    shelve = job()(authors.shelve).job
    until = datetime(2027, 1, 1, tzinfo=UTC)
    flow = await host.play(
        Workflow("shelves")
        .add("good", shelve.with_kwargs(shelf={"number": 3}, until=until))
        .add("bad", shelve.with_kwargs(shelf={"number": "three"}, until=until))
    )
    assert await host.result(flow, "good") == "shelf 3 until 2027"
    assert flow.row("bad").state == "discarded"
    [attempt] = await asyncio.to_thread(flow.store.flow_records.attempts, flow.id, flow.row("bad").number)
    assert attempt.outcome == "ValidationError"
    assert "valid integer" in (attempt.error or "")


async def test_worker_classes_get_the_job(host: Hosted) -> None:
    flow = await host.play(
        Workflow("mails", id="mails-1")
        .add("async", authors.Mailer.new({"name": "ann"}))
        .add("sync", authors.Counter.new())
    )
    assert await host.result(flow, "async") == "mail to ann, attempt 1"
    assert (await host.result(flow, "sync"))["workflow_id"] == "mails-1"


async def test_a_context_tells_the_attempt_and_earlier_results(host: Hosted) -> None:
    flow = await host.play(
        Workflow("identity")
        .add_cascade("a", ([authors.Book(title="Emma")], authors.title))
        .add_cascade("between", authors.nothing, deps="a")
        .add_cascade("last", authors.identity, deps="between")
    )
    expected = {"key": f"{flow.uid}:last:1", "attempt": 1, "earlier": "0: Emma (1900)"}
    assert await host.result(flow, "last") == expected
    assert authors.calls == ["between"]
