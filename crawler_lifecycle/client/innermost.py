"""`flows`: the innermost open client under one name, for modules that name their client once at the top."""

from typing import Any, cast

from crawler_lifecycle.client.opening import Flows
from crawler_lifecycle.client.workflows import WorkflowClient


class _Innermost:
    """Stand-in for the client that is open at the time of a call, such as a host's client in a step."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Flows.current(), name)


flows = cast(WorkflowClient, _Innermost())
