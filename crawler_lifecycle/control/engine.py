"""The only module that commands Temporal's client.

The client's errors become ours here: not reachable is temporary, a workflow that refused its input is bad input.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.contract.base import Message, Request
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.control.descriptions import MISSING, described, run_of, task_failure
from crawler_lifecycle.control.silence import silent_runtime
from crawler_lifecycle.control.temporal_errors import failure_of, translated
from crawler_lifecycle.domain.audit.subjects import WorkflowInfo
from crawler_lifecycle.domain.naming import EXPORT_WORKFLOW, RUN_WORKFLOW
from crawler_lifecycle.errors import (
    Conflict,
    NotFound,
    NotReady,
    PermanentError,
    TemporaryError,
)
from crawler_lifecycle.ports import Nudge
from crawler_lifecycle.workflows.converter import lifecycle_data_converter
from crawler_lifecycle.workflows.visibility import SEARCH_ATTRIBUTES

DEFAULT_ADDRESS = "localhost:7233"
ONCE = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
RPC_TIMEOUT = timedelta(seconds=10)
CONNECT_SECONDS = 40.0  # the SDK gives up by itself sooner, unless nothing at all comes back
IDS_IN_A_QUERY = 100
LATEST_EVENTS = 20
TYPES = f"'{RUN_WORKFLOW}', '{EXPORT_WORKFLOW}'"  # one of another type that took the id is described
QUOTES = set("'\"\\`")
# a signal: too many wait, it is about to close, it has had all that its server allows
REFUSED = (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.INVALID_ARGUMENT)


class Engine:
    """A Temporal server, as its own variables and configuration file name it.

    `runtime`: of a worker, which has metrics; without it the SDK's library runs without a log.
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

    async def start(
        self,
        workflow: str,
        request: Message | Request,
        workflow_id: str,
        summary: str,
        *,
        join: bool = False,
        once: bool = False,
    ) -> WorkflowHandle[Any, Any]:
        """`join`: if that workflow is open already, it is the one meant. `once`: Conflict if it has ended well."""
        client = await self.client()
        try:
            async with translated(self.address):
                return await client.start_workflow(
                    workflow,
                    request,
                    id=workflow_id,
                    task_queue=self.task_queue,
                    static_summary=summary,
                    id_reuse_policy=ONCE if once else WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING if join else WorkflowIDConflictPolicy.FAIL,
                    rpc_timeout=RPC_TIMEOUT,
                )
        except WorkflowAlreadyStartedError as error:
            raise Conflict(f"workflow {workflow_id} has run already") from error

    @staticmethod
    def has_joined(handle: WorkflowHandle[Any, Any]) -> bool:
        """Whether what was started was open already; only Temporal's answer tells."""
        answer = getattr(handle, "_start_workflow_response", None)
        return answer is not None and not answer.started

    async def nudge(self, nudge: Nudge) -> None:
        """Something of the run has changed. NotFound if its workflow is not open."""
        client = await self.client()
        async with translated(self.address):
            await client.get_workflow_handle(nudge.workflow_id).signal("nudge", nudge.number, rpc_timeout=RPC_TIMEOUT)

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        """By signal, or by cancel if that is refused; which of them. NotFound if the workflow is not open."""
        handle = (await self.client()).get_workflow_handle(workflow_id)
        try:
            await handle.signal("stop", stop, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status not in REFUSED:
                async with translated(self.address):
                    raise
            async with translated(self.address):
                await handle.cancel(rpc_timeout=RPC_TIMEOUT)
            return "cancel"
        return "signal"

    async def is_open(self, workflow_id: str) -> bool:
        return (await self.describe(workflow_id)).is_open

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        """As the server's list has them, which lags."""
        client, found = await self.client(), set[str]()
        for query in _queries_for_open(workflow_ids):
            try:
                async with translated(self.address):
                    async for each in client.list_workflows(query, rpc_timeout=RPC_TIMEOUT):
                        found.add(each.id)
            except NotFound as error:  # the namespace: no workflow of it is gone for that
                raise TemporaryError(error.message) from error
        return found

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        client = await self.client()
        request = DescribeWorkflowExecutionRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=workflow_id)
        )
        try:
            async with translated(self.address):
                seen = await client.workflow_service.describe_workflow_execution(
                    request, retry=True, timeout=RPC_TIMEOUT
                )
        except NotFound:
            return MISSING
        return described(seen)

    async def asked_for(self, workflow_id: str) -> int | None:
        client = await self.client()
        request = GetWorkflowExecutionHistoryRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=workflow_id), maximum_page_size=1
        )
        try:
            async with translated(self.address):
                answer = await client.workflow_service.get_workflow_execution_history(
                    request, retry=True, timeout=RPC_TIMEOUT
                )
        except NotFound:
            return None
        began = answer.history.events[0].workflow_execution_started_event_attributes
        try:
            return run_of(await client.data_converter.decode(began.input.payloads))
        except (RuntimeError, ValueError, KeyError) as error:  # bytes that do not fit, or an encoding that nobody knows
            raise PermanentError(f"what workflow {workflow_id} was started with cannot be read: {error}") from error

    async def task_failure(self, workflow_id: str) -> str | None:
        client = await self.client()
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id),
            maximum_page_size=LATEST_EVENTS,
        )
        async with translated(self.address):
            answer = await client.workflow_service.get_workflow_execution_history_reverse(
                request, retry=True, timeout=RPC_TIMEOUT
            )
        return task_failure(answer.history.events)

    async def go_on(self, workflow_id: str, request: RunRequest) -> None:
        """A run's own workflow, with this request; if it is open already, it is left to it."""
        await self.start(RUN_WORKFLOW, request, workflow_id, f"{request.crawler}, run {request.run_id}", join=True)

    async def cancel(self, workflow_id: str, temporal_run_id: str) -> None:
        client = await self.client()
        async with translated(self.address):
            await client.get_workflow_handle(workflow_id, run_id=temporal_run_id).cancel(rpc_timeout=RPC_TIMEOUT)

    async def result(self, handle: WorkflowHandle[Any, Any]) -> Any:
        """How the workflow ended; what it failed with is raised as ours."""
        async with translated(self.address):
            try:
                return await handle.result()
            except WorkflowFailureError as error:
                raise failure_of(error) from error

    def translated(self) -> AbstractAsyncContextManager[None]:
        """For those who speak to the client themselves: its errors become ours."""
        return translated(self.address)

    @property
    def address(self) -> str:
        return str(self._options().get("target_host", DEFAULT_ADDRESS))

    @property
    def namespace(self) -> str:
        return str(self._options().get("namespace", "default"))

    async def ping(self) -> None:
        """The server answers, and so does its store of what runs."""
        client = await self.client()
        async with translated(self.address):
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace), timeout=RPC_TIMEOUT
            )
            await client.count_workflows(rpc_timeout=RPC_TIMEOUT)

    async def search_attributes(self) -> set[str]:
        client = await self.client()
        async with translated(self.address):
            answer = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=self.namespace), timeout=RPC_TIMEOUT
            )
        return set(answer.custom_attributes)

    async def pollers(self) -> dict[str, float]:
        """Who asks the task queue for work, and when each did last (seconds since 1970)."""
        client = await self.client()
        async with translated(self.address):
            answer = await client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=self.namespace,
                    task_queue=TaskQueue(name=self.task_queue),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                ),
                timeout=RPC_TIMEOUT,
            )
        return {poller.identity: poller.last_access_time.ToNanoseconds() / 1e9 for poller in answer.pollers}

    async def _connect(self) -> Client:
        options = {"target_host": DEFAULT_ADDRESS, **self._options()}
        runtime = self._runtime or silent_runtime()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await Client.connect(**options, data_converter=lifecycle_data_converter, runtime=runtime)
        except (RuntimeError, TimeoutError) as error:  # what the SDK raises when nobody answers
            raise TemporaryError(
                f"Temporal does not answer at {self.address}: start the stack with `crawlctl up`, "
                "or set TEMPORAL_ADDRESS to where it is"
            ) from error

    def _options(self) -> dict[str, Any]:
        try:
            return {**ClientConfig.load_client_connect_config(override_env_vars=dict(self._environment))}
        except RuntimeError as error:
            raise NotReady(f"Temporal's own configuration cannot be read: {error}") from error


def _queries_for_open(workflow_ids: Sequence[str]) -> Iterator[str]:
    """What would have to be quoted is left out: it is not listed, and so it is described."""
    plain = [name for name in workflow_ids if not set(name) & QUOTES]
    for start in range(0, len(plain), IDS_IN_A_QUERY):
        ids = ", ".join(f"'{name}'" for name in plain[start : start + IDS_IN_A_QUERY])
        yield f"ExecutionStatus = 'Running' AND WorkflowType IN ({TYPES}) AND WorkflowId IN ({ids})"


def search_attribute_types() -> dict[str, str]:
    """What has to be registered with a server, in its own words."""
    return {attribute.name: attribute.indexed_value_type.name.title() for attribute in SEARCH_ATTRIBUTES}
