"""Show an activity's own error message as the workflow's failure."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ActivityError, ApplicationError


@contextmanager
def failing_with_activity_message() -> Iterator[None]:
    """Raise an activity's failure under the activity's own message.

    Otherwise Temporal's tools show "Activity task failed" as the workflow's failure, and hide our sentence in a cause.
    """
    try:
        yield
    except ActivityError as error:
        if not isinstance(error.cause, ApplicationError):
            raise
        failure = error.cause
        raise ApplicationError(failure.message, type=failure.type, non_retryable=failure.non_retryable) from error
