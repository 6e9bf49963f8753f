"""Replacement of a schedule's rules without undoing a change that somebody else makes at the same time.

The request names the state that it was made from. Temporal drops a request that comes too late, and some versions of
Temporal drop it silently. So each request is verified, and made anew from the present state if it was dropped.
"""

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
) -> None:
    """Give the schedule these rules. Its state (whether it is paused, and the note) stays."""
    for _ in range(TRIES):
        rules.state = found.schedule.state
        await _update(client, found, rules)
        now = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if goes_by_them(now.schedule):
            return
        found = now
    raise TemporaryError(f"schedule {handle.id} was changed by others {TRIES} times meanwhile: ask again")


async def _update(client: Client, found: ScheduleDescription, rules: Schedule) -> None:
    """Update with the state's token, which the client's own method does not send."""
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
