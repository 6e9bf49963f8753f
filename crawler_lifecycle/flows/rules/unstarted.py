"""Attempts without a run: the end of their workflow, by one rule for graphs, for crawl managers and for the audit."""

from dataclasses import dataclass

from crawler_lifecycle.model.supervision import WorkflowInfo

NO_WORKFLOW = "missing"  # how Temporal describes a workflow without a start
REFUSED = "refused"  # outcome word for an attempt whose request can never become a run
# outcome words by the workflow's end; any other end is unknown
WORDS = {"failed": REFUSED, "canceled": "cancelled", "terminated": "terminated", "timed_out": "timed_out"}
UNKNOWN = "unknown"
WITHOUT_RUN = frozenset({*WORDS.values(), UNKNOWN})  # outcome words for attempts that never made a run
IN_WORDS = {
    "failed": "its workflow was ended by a failure",
    "timed_out": "its workflow was ended by a time limit",
    "canceled": "its workflow was cancelled",
    "completed": "its workflow has completed, and the database has lost its run",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an attempt has no run, and never gets a run."""

    problem: str
    outcome: str = REFUSED


def is_missing(workflow: WorkflowInfo) -> bool:
    """Return whether the workflow has to be started: Temporal knows no such workflow."""
    return workflow.end == NO_WORKFLOW and not workflow.problem


def refusal(workflow: WorkflowInfo, failure: str | None) -> Refusal | None:
    """Return the refusal by a workflow that closed before it made a run; None for an open or missing workflow.

    A start under the same id would not repeat a closed workflow. `failure`: the message with which the workflow failed.
    """
    if workflow.is_open or workflow.problem or workflow.end in ("", NO_WORKFLOW):
        return None
    outcome = WORDS.get(workflow.end, UNKNOWN)
    return Refusal(failure or IN_WORDS.get(workflow.end, f"its workflow was {workflow.end}"), outcome)
