"""Checks on a schedule's action: a crawler's run, or a flow."""

from datetime import UTC, datetime
from operator import methodcaller

from crawler_lifecycle.contract.flows.work import CrawlWork
from crawler_lifecycle.contract.schedules import ScheduleRequest
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.flows.definitions import check_outside
from crawler_lifecycle.control.schedules.translation import Action
from crawler_lifecycle.domain.flows import merging
from crawler_lifecycle.domain.flows.messages import FlowOccurrence
from crawler_lifecycle.errors import BadInput


async def check_action(request: ScheduleRequest, context: Context) -> None:
    """Raise NotFound for an unknown crawler, and BadInput if a push would refuse the flow."""
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
