"""The end of a flow for people and programs: sums, failed members with their errors, results, picture."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field

from crawler_lifecycle.cli.flow_lines import end_line, failed_lines
from crawler_lifecycle.contract.base import Message
from crawler_lifecycle.contract.flows.answers import MemberRecord
from crawler_lifecycle.contract.flows.records import FlowStatus
from crawler_lifecycle.contract.flows.states import FAILED
from crawler_lifecycle.contract.flows.values import untagged

if TYPE_CHECKING:
    from crawler_lifecycle.control.flows.reading import FlowReader

MOST_ERRORS = 3  # members with their tracebacks
LAST_LINES = 15  # lines of a traceback


class FlowEnd(Message):
    status: FlowStatus
    failed: list[MemberRecord] = Field(description="discarded and cancelled members")
    errors: dict[str, str] = Field(description="ends of tracebacks by path, for the first failed steps")
    results: Any = Field(description="recorded results by path, nested for sub-workflows")
    graph: str | None = None

    @classmethod
    def read(cls, flows: "FlowReader", status: FlowStatus, *, graph: bool) -> "FlowEnd":
        failed = list(flows.members(status.id, states=FAILED))
        steps = [job for job in failed if job.kind == "step" and job.attempt]
        errors = {job.path: flows.attempts(status.id, job.path)[-1].error for job in steps[:MOST_ERRORS]}
        return cls(
            status=status,
            failed=failed,
            errors={path: error for path, error in errors.items() if error},
            results=untagged(flows.results(status.id)),
            graph=flows.workflow(status.id).to_mermaid(states=True) if graph else None,
        )


def end_lines(end: FlowEnd) -> Iterator[str]:
    yield end_line(end.status)
    yield from failed_lines(end.failed)
    for path, error in end.errors.items():
        yield f"  {path}:"
        yield from (f"    {line}" for line in error.rstrip().splitlines()[-LAST_LINES:])
    if end.graph:
        yield ""
        yield end.graph
