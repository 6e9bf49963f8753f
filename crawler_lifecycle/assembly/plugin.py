"""Plugin for Temporal's client, worker and replayer, which must agree on converter, sandbox and interceptor."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from crawler_lifecycle.audits.workflows import AuditWorkflow
from crawler_lifecycle.delivery.workflows import RunExportWorkflow
from crawler_lifecycle.flows.workflows.flow import FlowWorkflow
from crawler_lifecycle.flows.workflows.scheduled_flow import ScheduledFlowWorkflow
from crawler_lifecycle.runs.workflows.crawler_lifecycle import CrawlerLifecycleWorkflow
from crawler_lifecycle.temporal.boundary import Boundary
from crawler_lifecycle.temporal.converter import lifecycle_data_converter

WORKFLOWS: Sequence[type] = (
    CrawlerLifecycleWorkflow,
    RunExportWorkflow,
    AuditWorkflow,
    FlowWorkflow,
    ScheduledFlowWorkflow,
)
# pure modules, and modules for activities only: the sandbox passes these modules through and never reloads them
TRUSTED = (
    *(
        f"crawler_lifecycle.{capability}.{layer}"
        for capability in ("audits", "clusters", "delivery", "flows", "limits", "managers", "runs", "schedules")
        for layer in ("activities", "authors", "model", "ports", "rules")
    ),
    "crawler_lifecycle.base",
    "crawler_lifecycle.errors",
    "crawler_lifecycle.logs",
    "crawler_lifecycle.model",
    "crawler_lifecycle.temporal.boundary",
    "pydantic",
    "pydantic_core",
    "annotated_types",
)


class LifecyclePlugin(SimplePlugin):
    def __init__(
        self,
        activities: Sequence[Callable[..., Any]] = (),
        *,
        workflows: Sequence[type] = WORKFLOWS,
        isolated: bool = False,
    ) -> None:
        """Make the plugin. `isolated`: workflows run in a sandbox, which notices forbidden calls.

        Such a call is `datetime.now()`. The tests replay every recorded history in the sandbox. A worker has no
        sandbox, because the sandbox runs code for every payload and every start: up to a fifth of a short run's CPU.
        """
        super().__init__(
            "crawler-lifecycle",
            data_converter=lifecycle_data_converter,
            interceptors=[Boundary()],
            workflows=workflows,
            activities=activities,
            workflow_runner=lambda _: _sandbox() if isolated else UnsandboxedWorkflowRunner(),
        )


def _sandbox() -> WorkflowRunner:
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*TRUSTED)
    return SandboxedWorkflowRunner(restrictions=restrictions)
