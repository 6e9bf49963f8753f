"""The connection to a Temporal server: its client, checks of the server, and the translation of its errors.

`translated` and `failure_of` turn the errors of Temporal's client into our own errors.
"""

import asyncio
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client, WorkflowFailureError
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound, NotReady, PermanentError, TemporaryError
from crawler_lifecycle.model.naming import archive_queue, steps_queue
from crawler_lifecycle.temporal.converter import lifecycle_data_converter
from crawler_lifecycle.temporal.visibility import SEARCH_ATTRIBUTES

DEFAULT_ADDRESS = "localhost:7233"
RPC_TIMEOUT = timedelta(seconds=10)  # longest wait for the answer to a request
IDENTITY_MARK = "#"  # before the installation in a worker's name
NO_WORKFLOW = "no-workflow"  # in queries whose answer does not matter
RECENT_SECONDS = 90.0  # a worker asks again within about a minute
CONNECT_SECONDS = 40.0  # limit for a silent server; in all other cases the SDK gives up sooner
# After a permanent error the same request fails again. After an error in neither list a retry may help, also after
# CANCELLED, which the SDK raises if the answer did not come in time.
PERMANENT = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.FAILED_PRECONDITION)
FORBIDDEN = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)
# the same two in the text of the SDK's error during the connection
REFUSAL = re.compile(r'code: (?:PermissionDenied|Unauthenticated), message: "([^"]*)"')


def identity_for(installation: str) -> str:
    """Return the name under which a worker for the installation asks Temporal for work."""
    return f"{os.getpid()}@{socket.gethostname()}{IDENTITY_MARK}{installation}"


@asynccontextmanager
async def translated(address: str) -> AsyncIterator[None]:
    """Raise the SDK's errors in the block as our own errors, with the server's address."""
    try:
        yield
    except RPCError as error:
        if error.status in FORBIDDEN:
            raise _refused(address, error.message) from error
        raise _error_class(error)(f"Temporal at {address}: {error.message}") from error


def _refused(address: str, words: str) -> NotReady:
    return NotReady(
        f"Temporal at {address} refuses us ({words}): check TEMPORAL_API_KEY or the client certificate, and their "
        "rights in the namespace"
    )


def _error_class(error: RPCError) -> type[LifecycleError]:
    """Return our class for the error. NotReady: an operator has to mend the namespace."""
    if error.status is RPCStatusCode.NOT_FOUND:
        return NotReady if _is_namespace_unknown(error) else NotFound
    return PermanentError if error.status in PERMANENT else TemporaryError


def _is_namespace_unknown(error: RPCError) -> bool:
    """Return whether the error says that the namespace does not exist.

    Such an error proves nothing about a workflow, since a busy server may deny an existing namespace.
    """
    return any(detail.Is(NamespaceNotFoundFailure.DESCRIPTOR) for detail in error.grpc_status.details)


def failure_of(error: WorkflowFailureError) -> LifecycleError:
    """Return the workflow's failure as our own error: BadInput if the input was refused, otherwise PermanentError.

    The message comes from the first ApplicationError among the causes: our own code raised this error.
    """
    cause: BaseException = error.cause
    while cause.__cause__ is not None and not isinstance(cause, ApplicationError):
        cause = cause.__cause__
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    if isinstance(cause, ApplicationError) and cause.type == BadInput.__name__:
        field, _, expected = message.partition(": ")  # the reverse of BadInput's own message
        return BadInput(field, expected)
    return PermanentError(message)


class TemporalConnection:
    """A connection to the Temporal server, opened at its first use.

    Temporal's own variables in `environment`, and Temporal's own configuration file, name the server. A worker passes
    its `runtime`, which has metrics; without a runtime, a silent runtime is used.
    """

    def __init__(self, environment: Mapping[str, str], task_queue: str, runtime: Runtime | None = None) -> None:
        self._environment = environment
        self._runtime = runtime
        self._client: Client | None = None
        self.task_queue = task_queue

    async def client(self) -> Client:
        if self._client is None:
            self._client = await self._connect()
        return self._client

    @asynccontextmanager
    async def calls(self) -> AsyncIterator[Client]:
        """Yield the client. Errors of its calls are raised as our own errors."""
        client = await self.client()
        async with translated(self.address):
            yield client

    @property
    def address(self) -> str:
        return str(self._options().get("target_host", DEFAULT_ADDRESS))

    @property
    def namespace(self) -> str:
        return str(self._options().get("namespace", "default"))

    async def ping(self) -> None:
        """Raise an error unless the server and its list of workflows answer."""
        async with self.calls() as client:
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace), timeout=RPC_TIMEOUT
            )
            await client.count_workflows(rpc_timeout=RPC_TIMEOUT)

    async def retention(self) -> timedelta:
        """Return how long the namespace keeps closed workflows."""
        async with self.calls() as client:
            answer = await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace), timeout=RPC_TIMEOUT
            )
        return answer.config.workflow_execution_retention_ttl.ToTimedelta()

    async def extend_retention(self, least: timedelta) -> None:
        """Let the namespace keep closed workflows at least this long."""
        if await self.retention() >= least:
            return
        request = UpdateNamespaceRequest(namespace=self.namespace)
        request.config.workflow_execution_retention_ttl.FromTimedelta(least)
        async with self.calls() as client:
            await client.workflow_service.update_namespace(request, timeout=RPC_TIMEOUT)

    async def missing_search_attributes(self) -> dict[str, str]:
        """Return the search attributes that are not registered with the server, and their types.

        The server refuses a query with an unknown attribute. A query needs only the right to list workflows.
        """
        types = search_attribute_types()
        if await self._accepts(*types):
            return {}
        return {name: types[name] for name in types if not await self._accepts(name)}

    async def _accepts(self, *attributes: str) -> bool:
        """Return whether the server accepts a query with these search attributes."""
        query = " AND ".join([f"WorkflowId = '{NO_WORKFLOW}'", *(f"{name} IS NULL" for name in attributes)])
        async with self.calls() as client:
            try:
                await client.count_workflows(query, rpc_timeout=RPC_TIMEOUT)
            except RPCError as error:
                if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                    raise
                return False
        return True

    async def pollers(self) -> dict[str, float]:
        """Return the task queue's workers, and when each worker last asked for work (seconds since 1970)."""
        return await self._pollers(self.task_queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)

    async def refuse_other_installation(self, installation: str) -> None:
        """Raise NotReady if workers for other installations, and none for this one, ask this server for work."""
        recent = time.time() - RECENT_SECONDS
        seen = {
            identity.partition(IDENTITY_MARK)[2] for identity, last in (await self.pollers()).items() if last > recent
        }
        others = sorted(seen - {"", installation})
        if others and installation not in seen:
            raise NotReady(
                f"Temporal at {self.address} serves installation {', '.join(others)}, and the database has "
                f"installation {installation}: set CRAWLER_STATE, or both "
                "TEMPORAL_ADDRESS and CRAWLER_DATABASE__URL, to those of one installation"
            )

    async def archive_pollers(self) -> dict[str, float]:
        """Return the workers that make archives, and when each worker last asked for an archive to make."""
        return await self._pollers(archive_queue(self.task_queue), TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)

    async def step_pollers(self, route: str) -> dict[str, float]:
        """Return the hosts of steps for a route, and when each host last asked for steps."""
        return await self._pollers(steps_queue(self.task_queue, route), TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)

    async def _pollers(self, task_queue: str, kind: TaskQueueType.ValueType) -> dict[str, float]:
        request = DescribeTaskQueueRequest(
            namespace=self.namespace, task_queue=TaskQueue(name=task_queue), task_queue_type=kind
        )
        async with self.calls() as client:
            answer = await client.workflow_service.describe_task_queue(request, timeout=RPC_TIMEOUT)
        return {poller.identity: poller.last_access_time.ToNanoseconds() / 1e9 for poller in answer.pollers}

    async def _connect(self) -> Client:
        options = {"target_host": DEFAULT_ADDRESS, **self._options()}
        runtime = self._runtime or _silent_runtime()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await Client.connect(**options, data_converter=lifecycle_data_converter, runtime=runtime)
        except (RuntimeError, TimeoutError) as error:  # the SDK raises RuntimeError when no server answers
            if refusal := REFUSAL.search(str(error)):
                raise _refused(self.address, refusal[1]) from error
            raise TemporaryError(
                f"Temporal does not answer at {self.address}: start the stack with `crawlctl up`, "
                "or set TEMPORAL_ADDRESS to the server's address"
            ) from error

    def _options(self) -> dict[str, Any]:
        try:
            return {**ClientConfig.load_client_connect_config(override_env_vars=dict(self._environment))}
        except RuntimeError as error:
            raise NotReady(f"Temporal's own configuration cannot be read: {error}") from error


@cache
def _silent_runtime() -> Runtime:
    """Return a runtime whose Rust library writes no log.

    The library would write its log, with colour codes, to stdout, among the answers of `crawlctl --json`. The errors
    that the SDK raises say the same as the log.
    """
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="off")))


def search_attribute_types() -> dict[str, str]:
    """Return the search attributes of runs, with their types as the server names them."""
    return {attribute.name: attribute.indexed_value_type.name.title() for attribute in SEARCH_ATTRIBUTES}
