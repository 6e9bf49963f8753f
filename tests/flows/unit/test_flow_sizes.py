"""Sizes of a flow: rows come and go in pieces that fit into Temporal's payloads."""

from collections import Counter
from typing import Any

import pytest

from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.store import ledger as flow_ledger
from crawler_lifecycle.flows.workflows import course
from tests.kit.authors.work import plain
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.graphs import activities_of, door, shown_as

PAGE, WRITE = 400, 5_000  # bytes
BASE_64 = 4 / 3
AROUND = 1_500  # bytes of a message beside its rows


async def largest_payload(flows: FlowStage, flow: Any) -> int:
    sizes = [0]
    async for event in flows.supervisor(flow).fetch_history_events():
        sizes.append(event.activity_task_scheduled_event_attributes.input.ByteSize())
        sizes.append(event.activity_task_completed_event_attributes.result.ByteSize())
        sizes += [details.ByteSize() for details in event.marker_recorded_event_attributes.details.values()]
    return max(sizes)


@pytest.mark.long
async def test_rows_are_read_and_written_in_pieces(flows: FlowStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_ledger, "BYTES_IN_A_PAGE", PAGE)
    monkeypatch.setattr(course, "BYTES_IN_A_WRITE", WRITE)
    workflow = Workflow().add("gate", plain, queue="elsewhere").add_many("many", [plain] * 200, deps="gate")
    flow, supervisor = await flows.start(workflow.add("last", plain, deps="many"))
    await shown_as(flow, "gate", "available")
    await door(flow.cancel, "gate")
    await flows.nudge(flow)
    assert (await supervisor.result())["state"] == "cancelled"
    assert Counter(flow.states.values()) == {"cancelled": 202}
    assert flow.row("many/7").reason == "dependency:gate"
    activities = await activities_of(supervisor)
    assert activities["read_flow"] > 5
    assert activities["write_flow"] >= 4
    assert await largest_payload(flows, flow) < PAGE * BASE_64 + AROUND
