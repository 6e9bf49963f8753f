"""Plugin for Temporal's client, worker and replayer, which must agree on converter, sandbox and interceptor."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from crawler_lifecycle.activities.boundary import Boundary
from crawler_lifecycle.workflows.audit import AuditWorkflow
from crawler_lifecycle.workflows.converter import lifecycle_data_converter
from crawler_lifecycle.workflows.crawler_lifecycle import CrawlerLifecycleWorkflow
from crawler_lifecycle.workflows.exporting import RunExportWorkflow

WORKFLOWS: Sequence[type] = (CrawlerLifecycleWorkflow, RunExportWorkflow, AuditWorkflow)
# pure modules, or modules called in activities only: without the list the sandbox loads them anew for every run
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
    def __init__(self, activities: Sequence[Callable[..., Any]] = ()) -> None:
        super().__init__(
            "crawler-lifecycle",
            data_converter=lifecycle_data_converter,
            interceptors=[Boundary()],
            workflows=WORKFLOWS,
            activities=activities,
            workflow_runner=_sandbox,
        )


def _sandbox(_: WorkflowRunner | None) -> WorkflowRunner:
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*TRUSTED))
