"""Plugin for Temporal's client, worker and replayer, which must agree on converter, sandbox and interceptor."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from crawler_lifecycle.activities.boundary import Boundary
from crawler_lifecycle.workflows.audit import AuditWorkflow
from crawler_lifecycle.workflows.converter import lifecycle_data_converter
from crawler_lifecycle.workflows.crawler_lifecycle import CrawlerLifecycleWorkflow
from crawler_lifecycle.workflows.exporting import RunExportWorkflow
from crawler_lifecycle.workflows.flow import FlowWorkflow
from crawler_lifecycle.workflows.scheduled_flow import ScheduledFlowWorkflow

WORKFLOWS: Sequence[type] = (
    CrawlerLifecycleWorkflow,
    RunExportWorkflow,
    AuditWorkflow,
    FlowWorkflow,
    ScheduledFlowWorkflow,
)
# pure modules, and modules for activities only: the sandbox passes these modules through and never reloads them
TRUSTED = (
    "crawler_lifecycle.contract",
    "crawler_lifecycle.domain",
    "crawler_lifecycle.errors",
    "crawler_lifecycle.ports",
    "crawler_lifecycle.activities",
    "crawler_lifecycle.logs",
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
