"""Starts a run of a crawler, and stops one, straight through Temporal. Needs the package `temporalio` and none of ours.

    python crawltrigger.py start bookshop order-4711
    python crawltrigger.py stop crawl-bookshop-order-4711 "wrong site"

Where Temporal is comes from its own variables: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
"""

import asyncio
import os
import sys
from datetime import UTC, datetime

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError

TASK_QUEUE = "crawler-lifecycle"
WORKFLOW = "CrawlerLifecycleWorkflow"
USAGE = "usage: crawltrigger.py start CRAWLER KEY | crawltrigger.py stop WORKFLOW REASON"


async def start(client: Client, crawler: str, key: str) -> None:
    """The key is the caller's own name for the run: however often it is asked for, it is one run."""
    workflow_id = f"crawl-{crawler}-{key}"
    request = {  # docs/schemas/run-request.json has all fields
        "crawler": crawler,
        "trigger": "api",
        "arguments": {"order": key},
        "tasks": 2,
        "requested_by": "orders (Python)",
    }
    try:
        handle = await client.start_workflow(
            WORKFLOW,
            request,
            id=workflow_id,
            task_queue=TASK_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
    except WorkflowAlreadyStartedError:
        print(workflow_id, "has run already")
    else:
        print(handle.id, handle.result_run_id)


async def stop(client: Client, workflow_id: str, reason: str) -> None:
    """Returns as soon as Temporal has the wish; the stop is proved later."""
    request = {  # docs/schemas/stop-request.json has all fields
        "actor": "ann",
        "reason": reason,
        "door": "orders",
        "asked_at": datetime.now(UTC).isoformat(),  # with the actor it makes one stop of what is sent twice
    }
    await client.get_workflow_handle(workflow_id).signal("stop", request)


async def main(arguments: list[str]) -> None:
    verbs = {"start": start, "stop": stop}
    if len(arguments) != 3 or arguments[0] not in verbs:
        sys.exit(USAGE)
    client = await Client.connect(**{"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()})
    verb, first, second = arguments
    await verbs[verb](client, first, second)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # a process as short as this may crash in the SDK's threads while Python shuts down (sdk-python #300)
