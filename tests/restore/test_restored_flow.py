"""The database is an old copy, and a graph of crawls had gone on: its crawls are told, and none is started twice.

The run of `ends` ended in what was lost. So did `over`, whose run the copy does not know, while `alive` still crawls.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.service import RPCError

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import PushFlow, RetryMembers
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import RunStatus
from tests.kit.data.databases import copy_file
from tests.kit.service.audits import audited
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import AT_ONCE, PATIENCE, Job, Site, site

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
ONCE = {(0, 1): Job(1, (0,))}
A_LOOK = 300.0  # the flow looks at crawls without a run 1, 3 and 6 minutes after its start


async def test_crawls_of_a_graph_that_the_copy_does_not_know_are_told(folder: Path) -> None:
    copy = folder / "copy.db"
    graph = Workflow("shops").add("ends", crawl("gated")).add("kept", crawl("gated"))
    graph.add("over", crawl("gated"), deps="ends").add("alive", crawl("gated"), deps="ends")
    graph.add("last", crawl("gated"), deps=["over", "alive", "kept"])
    async with site(folder, settings=AT_ONCE) as first:
        flow = (await first.control.flows.push(PushFlow(definition=graph.definition()))).flow_id
        runs = {path: await first.until_crawls(flow, path) for path in ("ends", "kept")}
        copy_file(first.state / "crawler.db", copy)
        first.release(runs["ends"], 0)
        runs |= {path: await first.until_crawls(flow, path) for path in ("over", "alive")}
        first.release(runs["over"], 0)
        await first.until_over(runs["ends"])
        await first.until_over(runs["over"])
        await eventually(lambda: _states(first, flow)["over"] == "completed", patience=PATIENCE)
    copy_file(copy, first.state / "crawler.db")

    async with site(folder, settings=AT_ONCE) as second:
        await _until_audited(second, runs["ends"])
        second.release(runs["kept"], 0)
        await eventually(lambda: _states(second, flow)["alive"] in ("executing", "discarded"), patience=PATIENCE)
        with suppress(RPCError):  # its workflow has looked by itself, and failed
            await second.nudge(runs["alive"])
        await eventually(lambda: second.control.flows.row(flow)[1].state == "discarded", patience=A_LOOK)
        assert _states(second, flow) == {
            "ends": "completed",
            "kept": "completed",
            "over": "discarded",
            "alive": "discarded",
            "last": "cancelled",
        }
        assert _error(second, flow, "over") == "its workflow has completed, and the database has lost its run"
        assert _error(second, flow, "alive") == f"there is no run {runs['alive'].run_id}"
        assert [second.jobs(runs[path]) for path in ("ends", "kept", "over")] == [ONCE] * 3
        assert second.jobs(runs["alive"]) == {(0, 1): Job(1)}, "the crawl goes on, and nobody ends it unasked"
        assert len(second.control.runs.select(RunFilter(flow=flow))) == 2

        await second.control.flows.change(flow, RetryMembers())
        for path in ("over", "alive", "last"):
            second.release(await second.until_crawls(flow, path), 0)
        await eventually(lambda: second.control.flows.row(flow)[1].state == "completed", patience=2 * PATIENCE)
        on_record = second.control.runs.select(RunFilter(flow=flow))
        assert [run.status for run in on_record] == [RunStatus.COMPLETED] * 5
        second.release(runs["alive"], 0)
        await eventually(lambda: second.jobs(runs["alive"]) == ONCE, patience=PATIENCE)


def _states(site: Site, flow: str) -> dict[str, str]:
    return {member.path: member.state for member in site.control.flows.members(flow)}


def _error(site: Site, flow: str, path: str) -> str | None:
    (attempt,) = site.control.flows.attempts(flow, path)
    return attempt.error


async def _until_audited(site: Site, run: Started) -> None:
    """Audit until the run is over: Temporal's list of what is open may lag."""

    async def is_over() -> bool:
        assert (await audited(site.control.audits, repair=True)).is_complete
        return site.control.runs.show(run.run_id).run.status.is_over

    await eventually_async(is_over, patience=PATIENCE)
