"""Many flows at once on one worker and one host: each flow ends, and each job runs once."""

import asyncio
from collections import Counter

import pytest

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from tests.flows import steps
from tests.flows.conftest import Service

pytestmark = pytest.mark.process
FLOWS = 200
JOBS = ("first", "left", "right", "last")
PATIENCE = 200.0


def diamond(number: int) -> Workflow:
    names = {job: steps.note.job.with_kwargs(name=f"{number} {job}") for job in JOBS}
    workflow = Workflow("diamond", id=f"many-{number}").add("first", names["first"])
    workflow.add("left", names["left"], deps="first").add("right", names["right"], deps="first")
    return workflow.add("last", names["last"], deps=["left", "right"])


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_two_hundred_flows_at_once_complete_each_exactly_once(service: Service) -> None:
    steps.CALLS.clear()
    stage = service.stage
    flows = [await asyncio.to_thread(stage.push, diamond(number)) for number in range(FLOWS)]
    assert steps.CALLS == [], "no flow goes on before all are on record"
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(stage.nudge(flow) for flow in flows))
        ends = await asyncio.gather(*(stage.supervisor(flow).result() for flow in flows))
    assert {end["state"] for end in ends} == {"completed"}
    called = Counter(steps.CALLS)
    assert called == {f"{number} {job}": 1 for number in range(FLOWS) for job in JOBS}
    assert stage.store.flow_records.figures().flows == {FlowState.COMPLETED: FLOWS}
    for flow in flows:
        rows = flow.ledger.members.values()
        assert {(row.state, row.attempt, row.in_flight) for row in rows} == {(MemberState.COMPLETED, 1, False)}, flow.id
        number = flow.id.removeprefix("many-")
        results = stage.store.flow_records.results(flow.id, range(len(JOBS)))
        assert list(results.values()) == [f"{number} {job}" for job in JOBS], "no result of another flow"
