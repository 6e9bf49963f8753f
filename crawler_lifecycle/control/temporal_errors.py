"""Errors of Temporal's client as errors of ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady, PermanentError, TemporaryError

# of the request itself; all else may get better (CANCELLED is the SDK's word for no answer in time)
PERMANENT = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.FAILED_PRECONDITION)
FORBIDDEN = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


@asynccontextmanager
async def translated(address: str) -> AsyncIterator[None]:
    """Raise errors of the SDK as errors of ours, with the address of the server."""
    try:
        yield
    except RPCError as error:
        raise _family(error)(f"Temporal at {address}: {error.message}") from error


def _family(error: RPCError) -> type[LifecycleError]:
    if error.status is RPCStatusCode.NOT_FOUND:
        return NotReady if _misses_its_namespace(error) else NotFound
    if error.status in FORBIDDEN:
        return NotReady
    return PermanentError if error.status in PERMANENT else TemporaryError


def _misses_its_namespace(error: RPCError) -> bool:
    """A busy server says so now and then of one that is there: nothing was told of what was asked for."""
    return any(detail.Is(NamespaceNotFoundFailure.DESCRIPTOR) for detail in error.grpc_status.details)


def failure_of(error: WorkflowFailureError) -> LifecycleError:
    """Return the error with which a workflow has failed."""
    cause: BaseException = error.cause
    while cause.__cause__ is not None and not isinstance(cause, ApplicationError):
        cause = cause.__cause__
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    if isinstance(cause, ApplicationError) and cause.type == BadInput.__name__:
        field, _, expected = message.partition(": ")
        return BadInput(field, expected)
    return PermanentError(message)
