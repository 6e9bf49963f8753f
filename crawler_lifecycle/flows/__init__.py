"""Authors' definitions for flows: graphs of crawls and Python steps.

The package imports neither Temporal nor a database's library, so an author's module can be imported anywhere. A client
pushes a workflow; `python -m workers.flows` runs its steps.
"""

from crawler_lifecycle.contract.flows.answers import MemberRecord
from crawler_lifecycle.contract.flows.records import CrawlReceipt, Decision, FlowStatus, TaskReceipt
from crawler_lifecycle.contract.flows.retrying import RetryPolicy, RetryRule
from crawler_lifecycle.domain.flows.states import StepState, WorkflowState
from crawler_lifecycle.flows.graph import Graph
from crawler_lifecycle.flows.jobs import ApprovalJob, CrawlJob, Job, JobOptions, StepJob, crawl
from crawler_lifecycle.flows.marks import StepFunction, Worker, job, step, worker
from crawler_lifecycle.flows.needs import EachTask, Quorum, any_of, each_task
from crawler_lifecycle.flows.open_client import FlowClient, blocking, open_client, opened
from crawler_lifecycle.flows.running import Cancel, Context, Record, RunningJob, Snooze
from crawler_lifecycle.flows.sequence import Sequence
from crawler_lifecycle.flows.states_dot import write_states_dot as generate_dot
from crawler_lifecycle.flows.steps import Level, SubWorkflow, WorkflowStep
from crawler_lifecycle.flows.workflow import Graft, Workflow

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
