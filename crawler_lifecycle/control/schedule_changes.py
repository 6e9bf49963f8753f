"""How does a schedule go by other rules without undoing what somebody else did to it meanwhile?

The change names the state it was made from. Temporal drops one that comes too late, and versions of it say nothing of
that: so it is looked whether it was carried out, and if not, it is made anew from what is there now.
"""

import dataclasses
from collections.abc import Callable
from uuid import uuid4

from temporalio.api.workflowservice.v1 import UpdateScheduleRequest
from temporalio.client import Client, Schedule, ScheduleDescription, ScheduleHandle
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.control.engine import RPC_TIMEOUT
from crawler_lifecycle.errors import TemporaryError

TRIES = 10


async def replace(
    client: Client,
    handle: ScheduleHandle,
    found: ScheduleDescription,
    rules: Schedule,
    goes_by_them: Callable[[Schedule], bool],
    noted: Callable[[ScheduleDescription], str | None] = lambda found: found.schedule.state.note,
) -> None:
    """By these rules; its state, whether it is paused and why, stays as it is but for what is `noted` of the change."""
    for _ in range(TRIES):
        rules.state = dataclasses.replace(found.schedule.state, note=noted(found))
        await _update(client, found, rules)
        now = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if goes_by_them(now.schedule):
            return
        found = now
    raise TemporaryError(f"schedule {handle.id} was changed by others {TRIES} times meanwhile: ask again")


async def _update(client: Client, found: ScheduleDescription, rules: Schedule) -> None:
    """As the client's own, which names no state."""
    request = UpdateScheduleRequest(
        namespace=client.namespace,
        schedule_id=found.id,
        schedule=await rules._to_proto(client),
        conflict_token=found.raw_description.conflict_token,
        identity=client.identity,
        request_id=str(uuid4()),
    )
    try:
        await client.workflow_service.update_schedule(request, retry=True, timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is not RPCStatusCode.FAILED_PRECONDITION:  # which says that the state is another
            raise
