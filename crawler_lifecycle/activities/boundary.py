"""How do our errors look to Temporal, how does it learn that a worker died, how does a log line know its run?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from crawler_lifecycle import logs
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, LifecycleError, NotFound

# what is said of the run itself; trouble of any other kind may end, and no trouble ends a run
FINAL = (BadInput, Conflict, Fenced, NotFound)
BEATS_IN_A_TIMEOUT = 4
TELLS_ITS_PROGRESS = ("export_supporting_files",)  # its own heartbeats say how far it is


class Boundary(Interceptor):
    """What is final is not tried again; an activity is, soon, whose worker died; its lines carry its ids."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (theirs)
        return _Boundary(next)


class _Boundary(ActivityInboundInterceptor):
    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._beat = outbound.heartbeat
        super().init(outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        info = activity.info()
        step = input.args[0] if input.args else None
        run = getattr(step, "run", step)  # what takes a run over names it by itself
        with logs.about(
            activity=info.activity_type,
            workflow_id=info.workflow_id,
            temporal_run_id=info.workflow_run_id,
            run_id=getattr(run, "run_id", None),
        ):
            try:
                async with self._beating(info):
                    return await super().execute_activity(input)
            except LifecycleError as error:
                # without its cause: a driver's chain is longer than what Temporal keeps of a failure, and hides ours
                raise ApplicationError(
                    error.message, type=type(error).__name__, non_retryable=isinstance(error, FINAL)
                ) from None

    @asynccontextmanager
    async def _beating(self, info: activity.Info) -> AsyncIterator[None]:
        """Heartbeats for as long as this process lives; that the activity itself hangs is told by its time-out."""
        if info.heartbeat_timeout is None or info.activity_type in TELLS_ITS_PROGRESS:
            yield
            return
        beats = asyncio.create_task(self._beats(info.heartbeat_timeout / BEATS_IN_A_TIMEOUT))
        try:
            yield
        finally:
            beats.cancel()

    async def _beats(self, pause: timedelta) -> None:
        while True:
            await asyncio.sleep(pause.total_seconds())
            self._beat()
