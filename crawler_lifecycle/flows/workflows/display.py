"""Show flows in Temporal's own lists and pages."""

from temporalio import workflow

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.flows.rules.planner import Planner
from crawler_lifecycle.model.flow_states import FlowState
from crawler_lifecycle.temporal.visibility import FLOW_ID, FLOW_STATE


class FlowDisplay:
    """A flow as Temporal's lists and pages show the flow."""

    def __init__(self, flow_id: str, has_attributes: bool) -> None:
        self._flow_id = flow_id
        self._has_attributes = has_attributes
        self._state: FlowState | None = None  # as shown

    def show(self, planner: Planner) -> None:
        state = planner.flow.state
        counts = "\n".join(f"- {number} {word}" for word, number in planner.counts.items())
        workflow.set_current_details(f"**{state}**: {counted(len(planner.rows), 'member')}\n\n{counts}")
        if self._has_attributes and state is not self._state:
            attributes = [FLOW_ID.value_set(self._flow_id), FLOW_STATE.value_set(state)]
            workflow.upsert_search_attributes(attributes if self._state is None else attributes[1:])
        self._state = state
