"""The client for flows, for authors' programs: push, wait, fetch, cancel, retry.

`Flows.open()` opens a client in async code, and `Flows.open_sync()` outside async code. A workflow's own verbs, such as
`workflow.status()`, use the innermost open client, and so does `flows`.
"""

from crawler_lifecycle.client.blocking import SyncFlows
from crawler_lifecycle.client.innermost import flows
from crawler_lifecycle.client.opening import Flows
from crawler_lifecycle.client.plugin import WorkflowPlugin
from crawler_lifecycle.client.workflows import WorkflowClient
from crawler_lifecycle.domain.flows.pruning import Age, Rule

__all__ = ["Age", "Flows", "Rule", "SyncFlows", "WorkflowClient", "WorkflowPlugin", "flows"]
