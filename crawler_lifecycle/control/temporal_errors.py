"""Translates the errors of Temporal's client into our own errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady, PermanentError, TemporaryError

# the request itself is wrong; after all other errors a retry may help (CANCELLED: the SDK had no answer in time)
PERMANENT = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.FAILED_PRECONDITION)
FORBIDDEN = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


@asynccontextmanager
async def translated(address: str) -> AsyncIterator[None]:
    """Raise the SDK's errors as our own errors, with the server's address."""
    try:
        yield
    except RPCError as error:
        raise _error_class(error)(f"Temporal at {address}: {error.message}") from error


def _error_class(error: RPCError) -> type[LifecycleError]:
    if error.status is RPCStatusCode.NOT_FOUND:
        return NotReady if _misses_its_namespace(error) else NotFound
    if error.status in FORBIDDEN:
        return NotReady
    return PermanentError if error.status in PERMANENT else TemporaryError


def _misses_its_namespace(error: RPCError) -> bool:
    """Return whether the server denies the namespace. A busy server may deny an existing namespace, so such an answer
    must not mean that a workflow is missing.
    """
    return any(detail.Is(NamespaceNotFoundFailure.DESCRIPTOR) for detail in error.grpc_status.details)


def failure_of(error: WorkflowFailureError) -> LifecycleError:
    """Return the workflow's failure as our own error."""
    cause: BaseException = error.cause
    while cause.__cause__ is not None and not isinstance(cause, ApplicationError):
        cause = cause.__cause__
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    if isinstance(cause, ApplicationError) and cause.type == BadInput.__name__:
        field, _, expected = message.partition(": ")
        return BadInput(field, expected)
    return PermanentError(message)
