"""Checks on a schedule's action: a crawler's run, or a flow."""

from datetime import UTC, datetime
from operator import methodcaller

from crawler_lifecycle.contract.flows.work import CrawlWork
from crawler_lifecycle.contract.schedules import ManagerSchedule, ScheduleRequest
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.flows.definitions import check_outside, definition_of_entry
from crawler_lifecycle.control.schedules.translation import Action
from crawler_lifecycle.domain.flows import merging
from crawler_lifecycle.domain.flows.messages import FlowOccurrence
from crawler_lifecycle.errors import BadInput


async def checked(request: ScheduleRequest | ManagerSchedule, context: Context) -> ScheduleRequest:
    """Return the request with a manager's flow. NotFound: unknown crawler; BadInput: a push would refuse the flow."""
    if isinstance(request, ManagerSchedule):
        manager = request.manager
        entry = await context.scheduler(methodcaller("manager", manager.name))
        request = request.with_flow(definition_of_entry(entry, request.schedule_id, manager.arguments))
    await _check(request, context)
    return request


async def _check(request: ScheduleRequest, context: Context) -> None:
    if request.flow is not None:
        check_outside(request.flow)
        merging.push(merging.new_ledger(request.flow), request.flow, datetime.now(UTC))
    for crawler in _crawlers(request):
        await context.scheduler(methodcaller("crawler", crawler))


def refuse_another_subject(request: ScheduleRequest, present: Action | None) -> None:
    """Raise BadInput if the schedule starts another crawler or flow at present. None: its input is not valid."""
    if present is None:
        return
    is_flow = isinstance(present, FlowOccurrence)
    subject = present.definition.id if isinstance(present, FlowOccurrence) else present.crawler
    if (is_flow, subject) != (request.flow is not None, request.subject):
        starts = f"flows {subject!r}" if is_flow else subject
        raise BadInput(
            "flow" if is_flow else "crawler",
            f"schedule {request.schedule_id} starts {starts}: delete the schedule, or take another name",
        )


def _crawlers(request: ScheduleRequest) -> list[str]:
    if request.flow is None:
        return [request.subject]
    works = (member.work for member in request.flow.members)
    return sorted({work.request.crawler for work in works if isinstance(work, CrawlWork)})
