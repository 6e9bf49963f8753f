"""Input and result of a flow's workflow."""

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.flow_states import FlowState


class SuperviseFlow(Message):
    """Input for a flow's workflow."""

    flow_uid: str
    flow_id: str
    is_cancelled: bool = Field(default=False, description="a pending cancel by Temporal's tools")


class FlowSupervised(Message):
    """Result for a flow's workflow: the flow's end."""

    flow_uid: str
    flow_id: str
    state: FlowState
