"""After the commit of a change, the flow of a run is nudged; a run without a flow costs nothing."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from crawler_lifecycle.delivery.activities import notices
from crawler_lifecycle.delivery.activities.notices import FlowNudges
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.model.requests import FlowLink
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, RunPlan
from crawler_lifecycle.model.task_changes import StatusWrite
from crawler_lifecycle.runs.rules.plan import NO_ABILITIES, RunLimits, plan_of
from crawler_lifecycle.temporal.boundary import worker_loop
from tests.kit.service.rig import NotedSupervisors, Rig
from tests.runs.removals import both_over
from tests.runs.resumes import ended, taken_over

UID = "0b0f6a5e-3f9f-4d93-a51a-1f0f8a3b7a11"
NUDGE = (UID, "nightly")


def link(**fields: Any) -> FlowLink:
    return FlowLink(flow_uid=UID, flow_id="nightly", member=3, path="shop", generation=1, attempt=1, **fields)


def closed(rig: Rig, plan: RunPlan) -> None:
    rig.do(rig.stopping.cancel_queued_tasks, CloseRun(run=plan.run, reason="stopped"))
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))


def test_the_end_of_a_run_nudges_its_flow(rig: Rig) -> None:
    closed(rig, rig.begin())
    assert rig.supervisors.nudged_flows == []
    closed(rig, rig.begin(flow=link()))
    assert rig.supervisors.nudged_flows == [NUDGE]


def test_a_reopening_nudges_the_flow_and_a_take_over_does_not(rig: Rig) -> None:
    plan = ended(rig, flow=link())
    rig.supervisors.nudged_flows.clear()
    taken_over(rig, plan)
    assert rig.supervisors.nudged_flows == []
    taken_over(rig, plan, "third", reopen=True)
    assert rig.supervisors.nudged_flows == [NUDGE]


@pytest.mark.parametrize("waits", [False, True])
def test_a_finished_export_nudges_only_a_flow_that_waits_for_archives(rig: Rig, waits: bool) -> None:
    plan = rig.begin(flow=link(waits_for_archive=waits))
    closed(rig, plan)
    rig.supervisors.nudged_flows.clear()
    planned = plan_of(rig.details(plan).run, RunLimits(), NO_ABILITIES)
    end = ExportedEnd(run=plan.run, flow=planned.flow)
    rig.do(rig.exports.initiate_export_signal, end)
    rig.do(rig.exports.export_supporting_files, end)
    assert rig.supervisors.nudged_flows == [NUDGE, NUDGE] * waits


@pytest.mark.parametrize("tells_tasks", [False, True])
def test_ended_tasks_nudge_only_a_flow_with_dependents_on_tasks(rig: Rig, tells_tasks: bool) -> None:
    plan, found = both_over(rig, flow=link(tells_tasks=tells_tasks))
    assert (found.flow is not None) is tells_tasks
    write = StatusWrite(run=plan.run, changes=found.changes, flow=found.flow)
    rig.do(rig.reconciliation.sync_statuses, write)
    assert rig.supervisors.nudged_flows == [NUDGE] * tells_tasks


def test_an_end_is_written_although_its_nudge_fails(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.supervisors.trouble = TemporaryError("Temporal does not answer")
    plan = rig.begin(flow=link())
    closed(rig, plan)
    assert rig.details(plan).run.status.is_over
    assert "flow nightly learns of a run at its next look or by the audit: Temporal does not answer" in caplog.text


async def test_nudges_of_many_runs_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first goes at once; what comes meanwhile goes with the next. Flows do not wait for one another."""
    monkeypatch.setattr(notices, "GAP", 0.01)
    supervisors = NotedSupervisors()
    nudges, other = FlowNudges(supervisors), link().model_copy(update={"flow_uid": str(uuid4())})
    worker_loop.set(asyncio.get_running_loop())
    for _ in range(50):
        await asyncio.to_thread(nudges.tell, link())
    await asyncio.to_thread(nudges.tell, other)
    while nudges._under_way:
        await asyncio.sleep(0)
    assert 2 <= supervisors.nudged_flows.count(NUDGE) < 50
    assert (other.flow_uid, "nightly") in supervisors.nudged_flows
