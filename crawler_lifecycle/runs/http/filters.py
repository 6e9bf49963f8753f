"""Query parameters by which a caller chooses runs; lists and counts have the same."""

from typing import Annotated

from fastapi import Depends, Query

from crawler_lifecycle.model.requests import Moment, Name
from crawler_lifecycle.model.run_filter import RunFilter
from crawler_lifecycle.model.states import ListedStatus, RunStatus, Trigger

MOST_VALUES = 10  # of a parameter that may be repeated


async def _run_filter(
    status: Annotated[
        list[RunStatus], Query(max_length=MOST_VALUES, description="only runs with one of these statuses")
    ] = [],  # noqa: B006
    listed: Annotated[
        list[ListedStatus],
        Query(
            max_length=MOST_VALUES,
            description="only runs with one of these statuses; `STOPPED` means the FAILED runs that a stop ended, and "
            "`FAILED` the others",
        ),
    ] = [],  # noqa: B006
    trigger: Annotated[
        list[Trigger], Query(max_length=MOST_VALUES, description="only runs with one of these triggers")
    ] = [],  # noqa: B006
    crawler: Annotated[Name | None, Query(description="only runs of this crawler")] = None,
    search: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            description="only crawlers with this text in their names, in any case, and the run with this RunID",
        ),
    ] = None,
    reason: Annotated[Name | None, Query(description="only runs that ended for this reason")] = None,
    outcome: Annotated[
        Name | None, Query(description="only runs whose end has this outcome, such as `finished` or `banned`")
    ] = None,
    requested_by: Annotated[
        str | None, Query(min_length=1, max_length=256, description="only runs of this requester")
    ] = None,
    tag: Annotated[Name | None, Query(description="only runs with this tag")] = None,
    label: Annotated[Name | None, Query(description="only runs with this label")] = None,
    since: Annotated[Moment | None, Query(description="only runs created at this time or later")] = None,
    until: Annotated[Moment | None, Query(description="only runs created before this time")] = None,
    flows: Annotated[
        bool, Query(description="runs of flows, too; default: only runs of their own, unless a tag or a label is given")
    ] = False,
    flow: Annotated[str | None, Query(max_length=128, description="only runs of the flow with this id or uid")] = None,
) -> RunFilter:
    return RunFilter(
        statuses=tuple(status),
        listed=tuple(listed),
        triggers=tuple(trigger),
        crawler=crawler,
        search=search,
        reason=reason,
        outcome=outcome,
        requested_by=requested_by,
        tag=tag,
        label=label,
        since=since,
        until=until,
        flows=flows,
        flow=flow,
    )


Chosen = Annotated[RunFilter, Depends(_run_filter)]
