"""`flows`: the innermost open client under a single name, for modules with a global client."""

from typing import Any, cast

from crawler_lifecycle.client.opening import Flows
from crawler_lifecycle.client.workflows import WorkflowClient


class _Innermost:
    """Stand-in for the open client during a call, such as a host's client during a step."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Flows.current(), name)


flows = cast(WorkflowClient, _Innermost())
