"""Waits for the ends of flows: a long poll of the supervisor, and beside it a slow read of the row.

The row decides, so a wait works without Temporal, too.
"""

import asyncio

from crawler_lifecycle.contract.run_filter import RunFilter
from crawler_lifecycle.contract.states import RunStatus
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.control.flows.reading import FlowReader
from crawler_lifecycle.domain.flows.rows import FlowRow
from crawler_lifecycle.errors import LifecycleError

OPEN = tuple(status for status in RunStatus if not status.is_over)
SLOW_READ = 2.0  # seconds between two reads while the end of the supervisor is awaited
WITHOUT_SUPERVISOR = 0.5  # seconds until the next look for a supervisor
AFTER_AN_END = 0.05  # seconds: a supervisor may end although its flow continues, such as by a termination


async def until_final(flow: str, context: Context, engine: Engine) -> FlowRow:
    """Return the flow's row as soon as the flow has ended. NotFound without such a flow."""
    reader = FlowReader(context)
    end: asyncio.Task[None] | None = None
    pause = 0.0
    try:
        while True:
            uid, row = await context.calls.run(reader.row, flow)
            if row.state.is_final:
                return row
            end = end or asyncio.create_task(_end_of_supervisor(engine, uid, pause))
            if (await asyncio.wait([end], timeout=SLOW_READ))[0]:
                end, pause = None, AFTER_AN_END
    finally:
        if end is not None:
            end.cancel()


async def until_proved(flow: str, context: Context, engine: Engine) -> FlowRow:
    """Return the flow's row as soon as the flow has ended, and none of its runs is open.

    A manager's flow may end before the crawls that its manager leaves alone.
    """
    row = await until_final(flow, context, engine)
    while await context.database(lambda store: store.records.page(RunFilter(flow=flow, statuses=OPEN), limit=1)):
        await asyncio.sleep(SLOW_READ)
    return row


async def _end_of_supervisor(engine: Engine, flow_uid: str, pause: float) -> None:
    """Wait for the end of the supervisor's execution after the pause; without a supervisor, wait for a moment."""
    await asyncio.sleep(pause)
    try:
        await engine.flow_ended(flow_uid)
    except LifecycleError:  # the row shows the flow's end without Temporal
        await asyncio.sleep(WITHOUT_SUPERVISOR)
