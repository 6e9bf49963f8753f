"""The clients for authors' and users' programs: `Flows` for flows in database and Temporal, `Api` for the HTTP API.

`Flows.open()` opens a client in async code, and `Flows.open_sync()` outside async code. A workflow's own verbs, such as
`workflow.status()`, use the innermost open client, and so does `flows`. `Api` needs an address and a token alone.

Names are imported at their first use: a program with `Api` alone does not load Temporal's slow client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawler_lifecycle.client.api import Api
    from crawler_lifecycle.client.blocking import SyncFlows
    from crawler_lifecycle.client.opening import Flows, flows
    from crawler_lifecycle.client.workflows import WorkflowClient
    from crawler_lifecycle.flows.rules.pruning import Age, Rule

    WorkflowPlugin: Any

__all__ = ["Age", "Api", "Flows", "Rule", "SyncFlows", "WorkflowClient", "WorkflowPlugin", "flows"]

MODULES = {
    "Age": "crawler_lifecycle.flows.rules.pruning",
    "Api": "crawler_lifecycle.client.api",
    "Flows": "crawler_lifecycle.client.opening",
    "Rule": "crawler_lifecycle.flows.rules.pruning",
    "SyncFlows": "crawler_lifecycle.client.blocking",
    "WorkflowClient": "crawler_lifecycle.client.workflows",
    "WorkflowPlugin": "crawler_lifecycle.compat.chancy.plugins.workflow",  # Chancy's doors are above the client
    "flows": "crawler_lifecycle.client.opening",
}


def __getattr__(name: str) -> Any:
    """Return the name from its module."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)
