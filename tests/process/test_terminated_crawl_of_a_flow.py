"""The workflow of a graph's crawl is terminated: the crawl goes on by the audit, and nothing is crawled twice."""

from pathlib import Path

import pytest

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import PushFlow
from tests.kit.service.audits import audited
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import AT_ONCE, PATIENCE, Job, Site, site
from tests.process.stops import terminate

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(300)]


async def test_041_a_terminated_crawl_of_a_graph_goes_on_by_the_audit(folder: Path) -> None:
    graph = Workflow("shops").add("shop", crawl("gated")).add("last", crawl("gated"), deps="shop")
    async with site(folder, settings=AT_ONCE) as stack:
        flow = (await stack.control.flows.push(PushFlow(definition=graph.definition()))).flow_id
        run = await stack.until_crawls(flow, "shop")
        await stack.until_running(run, 1)
        await terminate(stack, run)
        assert _states(stack, flow) == {"shop": "executing", "last": "suspended"}
        stack.release(run, 0)  # the job ends while nobody watches it

        async def is_over() -> bool:
            """Temporal's list of open workflows may lag, so several audits may be needed."""
            assert (await audited(stack.control.audits, repair=True)).is_complete
            return stack.details(run).run.status.is_over

        await eventually_async(is_over, patience=PATIENCE)
        assert (stack.details(run).run.epoch, stack.jobs(run)) == (2, {(0, 1): Job(1, (0,))})
        stack.release(await stack.until_crawls(flow, "last"), 0)
        await eventually(lambda: stack.control.flows.row(flow)[1].state == "completed", patience=PATIENCE)
        assert [attempt.attempt for attempt in stack.control.flows.attempts(flow, "shop")] == [1]


def _states(stack: Site, flow: str) -> dict[str, str]:
    return {member.path: member.state for member in stack.control.flows.members(flow)}
