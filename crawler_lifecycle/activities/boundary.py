"""How does an error of ours look to Temporal, and how does a log line know its run?"""

from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from crawler_lifecycle import logs
from crawler_lifecycle.errors import LifecycleError, PermanentError


class Boundary(Interceptor):
    """Permanent errors are not tried again; every line of an activity carries its ids."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (theirs)
        return _Boundary(next)


class _Boundary(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        info = activity.info()
        run = getattr(input.args[0], "run", None) if input.args else None
        with logs.about(
            activity=info.activity_type,
            workflow_id=info.workflow_id,
            temporal_run_id=info.workflow_run_id,
            run_id=getattr(run, "run_id", None),
        ):
            try:
                return await super().execute_activity(input)
            except LifecycleError as error:
                raise ApplicationError(
                    error.message, type=type(error).__name__, non_retryable=isinstance(error, PermanentError)
                ) from error
