"""A busy worker could not replay the history of a large flow, 4,700 events, in the ten seconds of a workflow task. The
flow started no crawl until its open crawls had ended, and went on as new only then: the server suggests it at 4,096."""

from types import SimpleNamespace
from typing import Any

import pytest

from crawler_lifecycle.flows.workflows import flow as workflow_module
from tests.kit.temporal.flow_stage import FlowStage
from tests.kit.temporal.graphs import chain

pytestmark = pytest.mark.regression(
    "A busy worker could not replay the history of a large flow, 4,700 events, in the ten seconds of a workflow task"
)


@pytest.mark.long
async def test_a_flow_continues_as_new_long_before_the_server_suggests_so(
    flows: FlowStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_module, "LONGEST_HISTORY", 60)
    flows.host.hold("j39")
    flow, supervisor = await flows.start(chain(40))
    for _ in range(5):
        await flows.nudge(flow)
    await flows.host.begun["j39"].wait()
    flows.host.release("j39")
    assert (await supervisor.result())["state"] == "completed"
    last = (await supervisor.describe()).raw_description.workflow_execution_info
    assert last.first_run_id != last.execution.run_id
    assert last.history_length < 60 + 60
    assert sorted(flows.host.played) == sorted(f"j{number}" for number in range(40))


@pytest.mark.parametrize(
    ("length", "adopted", "is_long"), [(1_500, 0, False), (1_501, 0, True), (3_000, 500, False), (3_001, 500, True)]
)
def test_the_events_of_adopted_attempts_are_left_out(
    monkeypatch: pytest.MonkeyPatch, length: int, adopted: int, *, is_long: bool
) -> None:
    """Five hundred attempts have a thousand events before the first one ends: executions would do little but adopt."""
    info = SimpleNamespace(is_continue_as_new_suggested=lambda: False, get_current_history_length=lambda: length)
    monkeypatch.setattr(workflow_module, "workflow", SimpleNamespace(info=lambda: info))
    supervision: Any = SimpleNamespace(adopted=adopted)
    assert workflow_module._has_long_history(supervision) is is_long
