"""Replaces a schedule's rules without losing the changes that other clients make at the same time.

A request carries the token that came with the description. Temporal drops a request with an old token, and
some versions of Temporal report no error. So every request is verified, and a dropped request is made anew from the
present state.
"""

from collections.abc import Callable
from uuid import uuid4

from temporalio.api.workflowservice.v1 import UpdateScheduleRequest
from temporalio.client import Client, Schedule, ScheduleDescription, ScheduleHandle
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT

TRIES = 10  # requests until the replacement is given up, because other clients change the schedule all the time


async def replace(
    client: Client,
    handle: ScheduleHandle,
    present: ScheduleDescription,
    rules: Schedule,
    has_rules: Callable[[Schedule], bool],
) -> None:
    """Give the schedule these rules. Its state stays: paused or not, and the note.

    `present` is the schedule's description, and `has_rules` returns whether a schedule has the new rules.
    """
    for _ in range(TRIES):
        rules.state = present.schedule.state
        await _update(client, present, rules)
        present = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if has_rules(present.schedule):
            return
    raise TemporaryError(f"schedule {handle.id} was changed by other clients {TRIES} times meanwhile: try again")


async def _update(client: Client, present: ScheduleDescription, rules: Schedule) -> None:
    """Send the rules with the token of the present state; the client's own method sends no token."""
    request = UpdateScheduleRequest(
        namespace=client.namespace,
        schedule_id=present.id,
        schedule=await rules._to_proto(client),
        conflict_token=present.raw_description.conflict_token,
        identity=client.identity,
        request_id=str(uuid4()),
    )
    try:
        await client.workflow_service.update_schedule(request, retry=True, timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is not RPCStatusCode.FAILED_PRECONDITION:  # the token is old: `replace` tries again
            raise
