"""Interceptor around every activity: translate errors for Temporal, send heartbeats, name the run in log lines."""

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput, Interceptor

from crawler_lifecycle import logs
from crawler_lifecycle.errors import BadInput, Conflict, Fenced, LifecycleError, NotFound

# after these errors a further try is useless; all other errors may be temporary, so Temporal tries the activity again
FINAL = (BadInput, Conflict, Fenced, NotFound)
HEARTBEATS_IN_A_TIMEOUT = 4  # so that a few delayed heartbeats do not make a living worker seem dead
# the worker's event loop, for activities in threads; None outside of a worker
worker_loop: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar("loop", default=None)
WITH_OWN_HEARTBEATS = ("export_supporting_files",)  # activities with heartbeats of their own, for their progress


class Boundary(Interceptor):
    """Interceptor for a worker. It marks final errors, and its heartbeats reveal a dead worker within seconds."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (the SDK)
        return _ActivityBoundary(next)


class _ActivityBoundary(ActivityInboundInterceptor):
    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._send_heartbeat = outbound.heartbeat
        super().init(outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        info = activity.info()
        worker_loop.set(asyncio.get_running_loop())
        step = input.args[0] if input.args else None
        run = getattr(
            step, "run", step
        )  # a step without a RunRef, such as TakeOver, may itself have the field `run_id`
        with logs.about(
            activity=info.activity_type,
            workflow_id=info.workflow_id,
            temporal_run_id=info.workflow_run_id,
            run_id=getattr(run, "run_id", None),
        ):
            try:
                with self._heartbeats(info):
                    return await super().execute_activity(input)
            except LifecycleError as error:
                # `from None`: a database driver's chain of errors would exceed Temporal's limit and hide the message
                raise ApplicationError(
                    error.message, type=type(error).__name__, non_retryable=isinstance(error, FINAL)
                ) from None

    @contextmanager
    def _heartbeats(self, info: activity.Info) -> Iterator[None]:
        """Send heartbeats during the block, as long as the process lives.

        The heartbeats of a hanging activity continue, and the activity's time-out ends the try.
        """
        if info.heartbeat_timeout is None or info.activity_type in WITH_OWN_HEARTBEATS:
            yield
            return
        heartbeats = _Heartbeats(self._send_heartbeat, info.heartbeat_timeout / HEARTBEATS_IN_A_TIMEOUT)
        try:
            yield
        finally:
            heartbeats.cancel()


class _Heartbeats:
    """Repeated heartbeats. A timer of the event loop costs less than a task, and few activities reach a heartbeat."""

    def __init__(self, send: Callable[[], None], pause: timedelta) -> None:
        self._send = send
        self._pause = pause.total_seconds()
        self._plan_next()

    def cancel(self) -> None:
        self._timer.cancel()

    def _plan_next(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._beat)

    def _beat(self) -> None:
        self._send()
        self._plan_next()
