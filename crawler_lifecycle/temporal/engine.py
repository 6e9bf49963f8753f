"""`Engine` starts, signals, cancels and describes workflows. Schedules are in other modules.

The client's errors are raised as our own errors: TemporaryError if the server does not answer, BadInput if a workflow
refused its input.

`workflow_info` translates Temporal's answer about a workflow. The SDK's own description is not used, because the SDK
fails at an unknown status, such as a paused workflow's status.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent, WorkflowTaskFailedEventAttributes
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.errors import Conflict, NotFound, PermanentError, TemporaryError
from crawler_lifecycle.model.flow_states import SuperviseFlow
from crawler_lifecycle.model.naming import EXPORT_WORKFLOW, FLOW_WORKFLOW, RUN_WORKFLOW, flow_workflow_id
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.requests import RunRequest, StopRequest
from crawler_lifecycle.model.supervision import AuditedRun, Nudge, WorkflowInfo
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT, TemporalConnection, failure_of

MISSING = WorkflowInfo(is_open=False, end="missing")  # there is no workflow with the id
CLOSED = {status.value: status.name.lower() for status in WorkflowExecutionStatus if status.name != "RUNNING"}
LONGEST_FAILURE = 300  # characters
CAUSE_PREFIX = "WORKFLOW_TASK_FAILED_CAUSE_"
# Start a workflow under a used id unless the last workflow with this id has completed.
UNLESS_COMPLETED = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
# The server refuses a signal with these errors, in this order: too many signals wait; the workflow is closing;
# the workflow already got as many signals as the server allows.
SIGNAL_REFUSED = (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.INVALID_ARGUMENT)
LATEST_EVENTS = 20  # largest number of events to search for the last failure
IDS_IN_A_QUERY = 100  # workflow ids in a query for open workflows; a further query has the next ids
# A query for open workflows leaves out other types: a foreign workflow with a run's id must not count as the run's open
# workflow. The audit describes such a workflow by its id.
TYPES = f"'{RUN_WORKFLOW}', '{EXPORT_WORKFLOW}'"
LONGEST_SUMMARY = 400  # bytes; the server refuses a longer summary
QUOTES = set("'\"\\`")  # characters with a meaning in a query


def workflow_info(answer: DescribeWorkflowExecutionResponse) -> WorkflowInfo:
    """Return the workflow's description. Any status outside of CLOSED means open, also a status unknown to the SDK."""
    info, task = answer.workflow_execution_info, answer.pending_workflow_task
    return WorkflowInfo(
        is_open=info.status not in CLOSED,
        end=CLOSED.get(info.status, ""),
        ended_at=info.close_time.ToDatetime(UTC) if info.HasField("close_time") else None,
        is_ours=info.type.name == RUN_WORKFLOW,
        first_execution=info.first_run_id,
        task_attempt=task.attempt,
        task_since=task.original_scheduled_time.ToDatetime(UTC) if task.HasField("original_scheduled_time") else None,
    )


def task_failure(latest_first: Iterable[HistoryEvent]) -> str | None:
    """Return why the last workflow task failed, in a line. None: the last task succeeded, or none has ended yet.

    `latest_first` has the end of the workflow's history. When a task fails again and again, only its first failure is
    an event, so newer events of other kinds are passed over.
    """
    for event in latest_first:
        if event.HasField("workflow_task_failed_event_attributes"):
            return _in_one_line(event.workflow_task_failed_event_attributes)
        if event.HasField("workflow_task_timed_out_event_attributes"):
            return "the worker did not answer in time"
        if event.HasField("workflow_task_completed_event_attributes"):
            return None
        if event.HasField("workflow_execution_started_event_attributes"):
            return None  # the workflow has continued in a new execution meanwhile
    return "the latest events of its history do not say why"


def _in_one_line(failed: WorkflowTaskFailedEventAttributes) -> str:
    """Return the type of the exception, or Temporal's cause if no exception was raised, with the message."""
    kind = failed.failure.application_failure_info.type
    if not kind:
        kind = WorkflowTaskFailedCause.Name(failed.cause).removeprefix(CAUSE_PREFIX).replace("_", " ").lower()
    return " ".join(f"{kind}: {failed.failure.message}".split())[:LONGEST_FAILURE]


def run_id_in(inputs: Sequence[Any]) -> int | None:
    """Return the RunID in the input of a run's workflow: a request, or the continuation of an earlier execution.

    0: the request is for a new run. None: the input is neither a request nor a continuation.
    """
    match inputs:
        case [{"carried": {"plan": {"run": {"run_id": int(run_id)}}}}] | [{"run_id": int(run_id)}]:
            return run_id
        case [{"crawler": str(), **rest}] if rest.get("run_id") is None:
            return 0
    return None


class Engine(TemporalConnection):
    """The connection to Temporal with all operations on workflows, for commands, workers and the watcher."""

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
        """Start a workflow. Conflict if a workflow with the id is open; with `join`, return the open workflow instead.

        With `once`, raise Conflict also if the last workflow with the id has completed.
        """
        try:
            async with self.calls() as client:
                return await client.start_workflow(
                    workflow,
                    request,
                    id=workflow_id,
                    task_queue=self.task_queue,
                    static_summary=summary,
                    id_reuse_policy=UNLESS_COMPLETED if once else WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING if join else WorkflowIDConflictPolicy.FAIL,
                    rpc_timeout=RPC_TIMEOUT,
                )
        except WorkflowAlreadyStartedError as error:
            raise Conflict(f"workflow {workflow_id} has run already") from error

    @staticmethod
    def has_joined(handle: WorkflowHandle[Any, Any]) -> bool:
        """Return whether `start` with `join` returned an open workflow and started none."""
        answer = getattr(handle, "_start_workflow_response", None)  # the SDK's public fields do not have the answer
        return answer is not None and not answer.started

    async def go_on(self, run: RunRecord | AuditedRun, *, reopen: bool = False) -> None:
        """Start the run's own workflow, which resumes or reopens the run, unless the workflow is open."""
        request = RunRequest(crawler=run.crawler, run_id=run.run_id, reopen=reopen)
        await self.start(RUN_WORKFLOW, request, run.workflow_id, f"{run.crawler}, run {run.run_id}", join=True)

    async def start_crawl(self, workflow_id: str, request: RunRequest) -> None:
        """Start the workflow for a flow's crawl. Also a closed workflow with the id counts as started."""
        try:
            async with self.calls() as client:
                await client.start_workflow(
                    RUN_WORKFLOW,
                    request,
                    id=workflow_id,
                    task_queue=self.task_queue,
                    static_summary=_summary(request.crawler),
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    rpc_timeout=RPC_TIMEOUT,
                )
        except WorkflowAlreadyStartedError:
            return  # an earlier call, whose answer was lost, has started the workflow

    async def nudge_flow(self, flow_uid: str, flow_id: str) -> None:
        """Signal that the flow has news. Without an open workflow, start the flow's workflow with the signal."""
        async with self.calls() as client:
            await client.start_workflow(
                FLOW_WORKFLOW,
                SuperviseFlow(flow_uid=flow_uid, flow_id=flow_id),
                id=flow_workflow_id(flow_uid),
                task_queue=self.task_queue,
                static_summary=_summary(f"flow {flow_id}"),
                start_signal="nudge",
                rpc_timeout=RPC_TIMEOUT,
            )

    async def nudge(self, nudge: Nudge) -> None:
        """Signal that the run has changed in the cluster. NotFound if the run's workflow is not open."""
        async with self.calls() as client:
            await client.get_workflow_handle(nudge.workflow_id).signal("nudge", nudge.number, rpc_timeout=RPC_TIMEOUT)

    async def stop(self, workflow_id: str, stop: StopRequest) -> str:
        """Stop by a signal, or by a cancel if the signal is refused. Return `signal` or `cancel`; NotFound if the
        workflow is not open."""
        async with self.calls() as client:
            handle = client.get_workflow_handle(workflow_id)
            try:
                await handle.signal("stop", stop, rpc_timeout=RPC_TIMEOUT)
            except RPCError as error:
                if error.status not in SIGNAL_REFUSED:
                    raise
                await handle.cancel(rpc_timeout=RPC_TIMEOUT)
                return "cancel"
        return "signal"

    async def flow_ended(self, flow_uid: str) -> None:
        """Wait until the present execution of the flow's supervisor has ended. NotFound if there was none."""
        async with self.calls() as client:
            with suppress(WorkflowFailureError):  # a terminated supervisor has ended, too
                await client.get_workflow_handle(flow_workflow_id(flow_uid)).result()

    async def cancel(self, workflow_id: str, temporal_run_id: str) -> None:
        async with self.calls() as client:
            await client.get_workflow_handle(workflow_id, run_id=temporal_run_id).cancel(rpc_timeout=RPC_TIMEOUT)

    async def result(self, handle: WorkflowHandle[Any, Any]) -> Any:
        """Return the workflow's result, or raise the workflow's failure as our own error."""
        async with self.calls():
            try:
                return await handle.result()
            except WorkflowFailureError as error:
                raise failure_of(error) from error

    async def failure(self, workflow_id: str) -> str | None:
        """Return the failure's message; None if the last execution is open, or closed in another way."""
        if (await self.describe(workflow_id)).end != "failed":
            return None
        client = await self.client()
        try:
            await self.result(client.get_workflow_handle(workflow_id))
        except PermanentError as error:
            return error.message
        return None  # a later execution has completed meanwhile

    async def open_among(self, workflow_ids: Sequence[str]) -> set[str]:
        """Return the ids with an open run or export, by the server's list, which lags."""
        open_ids = set[str]()
        for query in _queries_for_open(workflow_ids):
            try:
                async with self.calls() as client:
                    async for execution in client.list_workflows(query, rpc_timeout=RPC_TIMEOUT):
                        open_ids.add(execution.id)
            except NotFound as error:  # an answer about the namespace, which does not prove the workflows closed
                raise TemporaryError(error.message) from error
        return open_ids

    async def describe(self, workflow_id: str) -> WorkflowInfo:
        """Return the latest workflow with this id, or MISSING."""
        try:
            async with self.calls() as client:
                description = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return MISSING
        return workflow_info(description.raw_description)

    async def requested_run_id(self, workflow_id: str) -> int | None:
        """Return the RunID in the workflow's input; 0 if the input asks for a new run.

        None: the input is not a run's input, or there is no such workflow.
        """
        try:
            async with self.calls() as client:
                handle = client.get_workflow_handle(workflow_id)
                first = await anext(handle.fetch_history_events(page_size=1, rpc_timeout=RPC_TIMEOUT))
        except NotFound:
            return None
        payloads = first.workflow_execution_started_event_attributes.input.payloads
        try:
            return run_id_in(await client.data_converter.decode(payloads))
        except (RuntimeError, ValueError, KeyError) as error:  # wrong bytes, or an unknown encoding
            raise PermanentError(f"the input of workflow {workflow_id} cannot be read: {error}") from error

    async def task_failure(self, workflow_id: str) -> str | None:
        """Return why the last workflow task failed. None: the last workflow task succeeded."""
        async with self.calls() as client:
            answer = await client.workflow_service.get_workflow_execution_history_reverse(
                GetWorkflowExecutionHistoryReverseRequest(
                    namespace=client.namespace,
                    execution=WorkflowExecution(workflow_id=workflow_id),
                    maximum_page_size=LATEST_EVENTS,
                ),
                retry=True,
                timeout=RPC_TIMEOUT,
            )
        return task_failure(answer.history.events)


def _summary(text: str) -> str:
    return text.encode()[:LONGEST_SUMMARY].decode(errors="ignore")


def _queries_for_open(workflow_ids: Sequence[str]) -> Iterator[str]:
    """Yield queries for open workflows. Ids with characters in QUOTES are left out; the audit describes them."""
    plain_ids = [workflow_id for workflow_id in workflow_ids if not set(workflow_id) & QUOTES]
    for start in range(0, len(plain_ids), IDS_IN_A_QUERY):
        ids = ", ".join(f"'{workflow_id}'" for workflow_id in plain_ids[start : start + IDS_IN_A_QUERY])
        yield f"ExecutionStatus = 'Running' AND WorkflowType IN ({TYPES}) AND WorkflowId IN ({ids})"
