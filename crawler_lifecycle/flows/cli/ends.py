"""A flow's end for people and programs: sums, ledgers of managers, failed members, results, picture."""

import shlex
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.cli.lines import end_line, failed_lines, is_success
from crawler_lifecycle.flows.cli.manager_lines import item_lines, status_lines
from crawler_lifecycle.flows.model.answers import FlowChange, MemberRecord
from crawler_lifecycle.flows.model.item_filter import ItemFilter
from crawler_lifecycle.flows.model.manager_records import ItemRecord, ManagerStatus
from crawler_lifecycle.flows.model.records import FlowStatus
from crawler_lifecycle.flows.model.values import untagged
from crawler_lifecycle.model.flow_states import FAILED
from crawler_lifecycle.model.manager_items import ItemState
from crawler_lifecycle.model.outcome_words import FINISHED

if TYPE_CHECKING:
    from crawler_lifecycle.flows.commands.reading import FlowReader

MOST_ERRORS = 3  # members with their tracebacks
LAST_LINES = 15  # lines of a traceback
MOST_ITEMS = 50  # a larger ledger is shown without its completed items
UNUSUAL = (ItemState.FAILED, ItemState.REFUSED, ItemState.CANCELLED)


class FlowReport(Message):
    status: FlowStatus
    failed: list[MemberRecord] = Field(description="discarded and cancelled members")
    errors: dict[str, str] = Field(description="ends of tracebacks by path, for the first failed steps")
    results: Any = Field(description="recorded results by path, nested for sub-workflows; null if they are too large")
    results_problem: str | None = Field(default=None, description="why the results are left out")
    graph: str | None = None
    managers: list[ManagerStatus] = Field(default=[], description="the flow's crawl managers, with their sums")
    items: dict[str, list[ItemRecord]] = Field(
        default={}, description=f"ledgers by manager; beyond {MOST_ITEMS} items without completed items"
    )

    @property
    def is_success(self) -> bool:
        """Whether all jobs are completed, and all managers closed as finished."""
        return is_success(self.status.state) and is_finished(self.managers)

    @classmethod
    def read(cls, flows: "FlowReader", status: FlowStatus, *, graph: bool) -> "FlowReport":
        failed = list(flows.members(status.id, states=FAILED))
        errors = {job.path: flows.attempts(status.id, job.path)[-1].error for job in _tried(failed)[:MOST_ERRORS]}
        managers = list(flows.managers(status.id))
        results, problem = _results(flows, status.id)
        return cls(
            status=status,
            failed=failed,
            errors={path: error for path, error in errors.items() if error},
            results=results,
            results_problem=problem,
            managers=managers,
            items={manager.path: _ledger(flows, status.id, manager.path) for manager in managers},
            graph=flows.workflow(status.id).to_mermaid(states=True) if graph else None,
        )


def _tried(failed: Iterable[MemberRecord]) -> list[MemberRecord]:
    """Return the failed steps with an attempt: an attempt has the text of the error."""
    return [job for job in failed if job.kind == "step" and job.attempt]


def _results(flows: "FlowReader", flow: str) -> tuple[Any, str | None]:
    """Return the results, or the problem of results that are too large: the flow has ended nevertheless."""
    try:
        return untagged(flows.results(flow)), None
    except BadInput as error:
        return None, error.expected


def is_finished(managers: Iterable[ManagerStatus]) -> bool:
    """Return whether all managers are closed as finished."""
    return all(manager.close_reason == FINISHED for manager in managers)


def _ledger(flows: "FlowReader", flow: str, manager: str) -> list[ItemRecord]:
    items = list(flows.items(flow, ItemFilter(manager=manager), limit=MOST_ITEMS + 1))
    if len(items) > MOST_ITEMS:
        return list(flows.items(flow, ItemFilter(manager=manager, states=UNUSUAL), limit=MOST_ITEMS))
    return items


async def until_paused(changes: AsyncIterator[FlowChange]) -> AsyncIterator[FlowChange]:
    """Yield the changes up to the flow's end, or up to a manager's pause by a failure."""
    async for change in changes:
        yield change
        if any(manager.problem is not None for manager in change.managers):
            return


def end_lines(end: FlowReport) -> Iterator[str]:
    yield end_line(end.status, end.managers)
    for manager in end.managers:
        yield from status_lines(manager)
        if items := end.items.get(manager.path):
            yield from item_lines(items, datetime.now(UTC))
    yield from failed_lines(end.failed)
    for path, error in end.errors.items():
        yield f"  {path}:"
        yield from (f"    {line}" for line in error.rstrip().splitlines()[-LAST_LINES:])
    if (more := len(_tried(end.failed)) - MOST_ERRORS) > 0:
        command = f"crawlctl flow jobs {shlex.quote(end.status.id)} --status discarded --attempts"
        yield f"  ... and {more} more (`{command}`)"
    if end.graph:
        yield ""
        yield end.graph.rstrip()
