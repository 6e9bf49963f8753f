"""Authors' definitions for flows: graphs of crawls and Python steps.

The package imports neither Temporal nor a database's library, so an author's module can be imported anywhere. A client
pushes a workflow; `crawlctl host` runs its steps.
"""

from crawler_lifecycle.flows.authors.dependencies import EachTask, Quorum, any_of, each_task
from crawler_lifecycle.flows.authors.functions import StepFunction, Worker, job, step, worker
from crawler_lifecycle.flows.authors.jobs import ApprovalJob, CrawlJob, Job, JobOptions, StepJob, crawl
from crawler_lifecycle.flows.authors.open_client import FlowClient, blocking, open_client, opened
from crawler_lifecycle.flows.authors.pictures import Graph
from crawler_lifecycle.flows.authors.pictures import write_states_dot as generate_dot
from crawler_lifecycle.flows.authors.running import Cancel, Context, Record, RunningJob, Snooze
from crawler_lifecycle.flows.authors.steps import Level, SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.authors.workflow import Graft, Sequence, Workflow
from crawler_lifecycle.flows.model.records import CrawlReceipt, Decision, FlowStatus, MemberRecord, TaskReceipt
from crawler_lifecycle.flows.rules.states import StepState, WorkflowState
from crawler_lifecycle.model.flow_retrying import RetryPolicy, RetryRule

__all__ = [
    "ApprovalJob",
    "Cancel",
    "Context",
    "CrawlJob",
    "CrawlReceipt",
    "Decision",
    "EachTask",
    "FlowClient",
    "FlowStatus",
    "Graft",
    "Graph",
    "Job",
    "JobOptions",
    "Level",
    "MemberRecord",
    "Quorum",
    "Record",
    "RetryPolicy",
    "RetryRule",
    "RunningJob",
    "Sequence",
    "Snooze",
    "StepFunction",
    "StepJob",
    "StepState",
    "SubWorkflow",
    "TaskReceipt",
    "Worker",
    "Workflow",
    "WorkflowState",
    "WorkflowStep",
    "any_of",
    "blocking",
    "crawl",
    "each_task",
    "generate_dot",
    "job",
    "open_client",
    "opened",
    "step",
    "worker",
]
