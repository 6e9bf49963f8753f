"""Interceptor around every activity: translate errors for Temporal, send heartbeats, name the run in log lines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput, Interceptor

from crawler_lifecycle import logs
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, LifecycleError, NotFound

# errors about the run itself; all other trouble may pass, so Temporal tries again and no trouble ends a run
FINAL = (BadInput, Conflict, Fenced, NotFound)
BEATS_IN_A_TIMEOUT = 4
BEATS_BY_ITSELF = ("export_supporting_files",)  # the activity's own heartbeats report its progress


class Boundary(Interceptor):
    """Mark final errors for Temporal, and send heartbeats, whose absence reveals a dead worker within seconds."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (theirs)
        return _Boundary(next)


class _Boundary(ActivityInboundInterceptor):
    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._beat = outbound.heartbeat
        super().init(outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        info = activity.info()
        step = input.args[0] if input.args else None
        run = getattr(step, "run", step)  # TakeOver has the RunID as a field of its own
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
                # without the cause: a database driver's chain of errors exceeds Temporal's limit and hides the message
                raise ApplicationError(
                    error.message, type=type(error).__name__, non_retryable=isinstance(error, FINAL)
                ) from None

    @asynccontextmanager
    async def _beating(self, info: activity.Info) -> AsyncIterator[None]:
        """Send heartbeats while the process lives. They do not show a hanging activity: its time-out ends the try."""
        if info.heartbeat_timeout is None or info.activity_type in BEATS_BY_ITSELF:
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
