"""For tests of outages: a run with a retry under way, a run that waits for its permit, and a flow with a crawl under
way, while something is away."""

from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from temporalio.service import RPCError

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import ApproveMember, PushFlow
from crawler_lifecycle.model.answers import Started
from crawler_lifecycle.model.flow_states import MemberState
from crawler_lifecycle.model.reasons import ADMISSION
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from tests.kit.waiting import eventually, eventually_async
from tests.process.crawls import PATIENCE, Job, Site, most_at_once
from tests.process.stops import events


@dataclass(frozen=True)
class Interrupted:
    """`retrying` has lost its job. `permitted` has the only permit of a label, which `waiting` waits for.

    `of_flow` is the run of the flow's crawl, and an approval follows it."""

    site: Site
    retrying: Started
    permitted: Started
    waiting: Started
    flow_id: str
    of_flow: Started

    def release(self) -> None:
        self.site.release(self.retrying, 0)
        self.site.release(self.permitted, 0)
        self.site.release(self.waiting, 0)
        self.site.release(self.of_flow, 0)

    async def assert_completed(self) -> None:
        """Each task has had one job for each attempt, and the limit was not exceeded."""
        await eventually_async(self._is_retried, patience=2 * PATIENCE, pause=1.0)
        details = await self.site.until_over(self.retrying, patience=2 * PATIENCE)
        (task,) = details.tasks
        assert (details.run.status, task.attempt, task.infrastructure_failures) == (RunStatus.COMPLETED, 2, 1)
        assert [former.reason for former in task.former_attempts] == ["runner_lost"]
        assert events(details).count("next attempt") == 1
        assert self.site.jobs(self.retrying) == {(0, 1): Job(1, ()), (0, 2): Job(1, (0,))}
        for run in (self.permitted, self.waiting):
            await self.site.assert_true(run, {0: 0})
        spans = [*self.site.spans(self.permitted).values(), *self.site.spans(self.waiting).values()]
        assert (len(spans), most_at_once(spans)) == (2, 1)
        await self._assert_flow_completed()

    async def _assert_flow_completed(self) -> None:
        """The crawl has had one run for its attempt, and the flow's end is told once."""
        flows = self.site.control.flows
        await flows.change(self.flow_id, ApproveMember(path="go"))
        await eventually(lambda: flows.row(self.flow_id)[1].state.is_final, patience=2 * PATIENCE)
        assert {member.path: member.state for member in flows.members(self.flow_id)} == {
            "shop": MemberState.COMPLETED,
            "go": MemberState.COMPLETED,
        }
        (attempt,) = flows.attempts(self.flow_id, "shop")
        (run,) = self.site.control.runs.select(RunFilter(flow=self.flow_id))
        assert (attempt.run_id, run.status) == (self.of_flow.run_id, RunStatus.COMPLETED)
        assert self.site.jobs(self.of_flow) == {(0, 1): Job(1, (0,))}
        assert [line.event for line in flows.lines(self.flow_id)].count("ended") == 1

    async def _is_retried(self) -> bool:
        """Nobody tells of a runner that was killed, so a nudge comes from here."""
        with suppress(RPCError):  # the run has completed just now
            await self.site.nudge(self.retrying)
        return self.site.details(self.retrying).tasks[0].attempt == 2


async def interrupted(site: Site) -> Interrupted:
    label = f"outage:{uuid4()}"
    site.control.parts.store.limits.change(f"label:{label}", {"runs": 1}, "a test")
    permitted = await site.start(labels=[label])
    retrying = await site.start(retries={"infrastructure": 1, "pause_seconds": 1})
    for run in (permitted, retrying):
        await site.until_running(run, 1)
    waiting = await site.start(labels=[label])
    await eventually(lambda: site.details(waiting).run.waiting_cause == ADMISSION, patience=PATIENCE)
    assert site.statuses(waiting) == [TaskStatus.QUEUED]
    flow_id, of_flow = await _flow_under_way(site)
    await site.lose(retrying, 0)
    return Interrupted(site, retrying, permitted, waiting, flow_id, of_flow)


async def _flow_under_way(site: Site) -> tuple[str, Started]:
    workflow = Workflow().add("shop", crawl("gated")).add_approval("go", deps="shop")
    flows = site.control.flows
    answer = await flows.push(PushFlow(definition=workflow.definition()))
    assert answer.nudged, answer.problem
    return answer.flow_id, await site.until_crawls(answer.flow_id, "shop")
