"""Endpoints that read flows: lists, single flows, jobs, attempts, results, explanations, pictures, changes."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Protocol, TypeAlias

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field
from starlette.responses import StreamingResponse

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import LONGEST_NAME
from crawler_lifecycle.base.names import LONGEST_PATH, ROOT
from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import LifecycleError, NotFound
from crawler_lifecycle.flows.commands.flow_commands import FlowCommands
from crawler_lifecycle.flows.commands.following import FollowedFlow
from crawler_lifecycle.flows.commands.reading import PictureFormat, picture
from crawler_lifecycle.flows.model.manager_records import ManagerStatus
from crawler_lifecycle.flows.model.records import FlowStatus, FlowSummary, MemberRecord, Why
from crawler_lifecycle.flows.model.values import untagged
from crawler_lifecycle.flows.ports.ledger import FlowStore
from crawler_lifecycle.flows.ports.records import AttemptRecord, FlowLine
from crawler_lifecycle.http import document
from crawler_lifecycle.http.cursors import make_cursor, read_place
from crawler_lifecycle.http.events import COMMENT, PAUSES_PER_COMMENT, event, stream, wait_for_closing
from crawler_lifecycle.http.problems import problem_of, problems
from crawler_lifecycle.http.state import READING, READING_RESULTS, ApiState, Caller, ForCallers, api_state, workflow_url
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.model.naming import flow_workflow_id

CHANGES = document.stream_answer(
    'event: flow\ndata: {"status":{"id":"nightly-2026-11-22","state":"executing"},"is_over":false,"jobs":[]}\n\n'
)
router = APIRouter(prefix="/v1/flows", tags=["flows"])
Flow = Annotated[str, Path(max_length=LONGEST_NAME, description="id of the flow")]
MOST_PATHS = 200  # jobs in a request, whose address would be too long otherwise
Job = Annotated[str, Query(min_length=1, max_length=LONGEST_PATH, description="path of the job, such as `sites/de`")]
Below = Annotated[
    list[Annotated[str, Field(max_length=LONGEST_PATH)]],
    Query(max_length=MOST_PATHS, description="only the jobs with these paths, and all jobs of these sub-workflows"),
]
Explained = Annotated[
    str | None,
    Query(min_length=1, max_length=LONGEST_PATH, description="path of a job or sub-workflow; default: the whole flow"),
]


class FlowPage(Message):
    flows: list[FlowSummary]
    next: str | None = Field(description="cursor of the next page; none: this is the last page")


class FlowView(Message):
    """A flow with its sub-workflows and its timeline, without its jobs."""

    flow: FlowSummary
    status: FlowStatus
    timeline: list[FlowLine]
    managers: list[ManagerStatus] = Field(default=[], description="the flow's crawl managers, with their numbers")
    temporal_url: str | None = Field(
        default=None, description="address of the flow's workflow in Temporal's Web UI; none: the UI is not configured"
    )


class MemberPage(Message):
    jobs: list[MemberRecord]
    total: int = Field(description="number of the jobs that fit the filters")
    next: int | None = Field(description="`first` of the next page; none: this is the last page")


class Results(Message):
    results: dict[str, Any] = Field(description="recorded results by path, nested for sub-workflows")
    context: dict[str, Any] | None = Field(description="context values of the flow; none: no context was given")


class AttemptList(Message):
    attempts: list[AttemptRecord] = Field(description="the member's attempts over all generations, the first one first")


class Picture(Message):
    format: PictureFormat
    graph: str


class HasFlows(ForCallers, Protocol):
    flows: FlowCommands

    @property
    def context(self) -> ControlContext[FlowStore]: ...


FlowsApi: TypeAlias = ApiState[HasFlows]
CurrentApi = Annotated[FlowsApi, Depends(api_state)]


@router.get("", dependencies=READING)
def list_flows(
    api: CurrentApi,
    state: Annotated[
        list[FlowState], Query(max_length=len(FlowState), description="only flows in one of these states")
    ] = [],  # noqa: B006
    family: Annotated[str | None, Query(max_length=LONGEST_NAME, description="only flows of this family")] = None,
    search: Annotated[
        str | None,
        Query(
            min_length=1, max_length=LONGEST_NAME, description="only flows with this text in id or name, in any case"
        ),
    ] = None,
    attention: Annotated[
        bool,
        Query(
            description="only flows that need attention: with an open approval, without a host, or ended in 24 hours "
            "with failed items of a manager"
        ),
    ] = False,
    limit: Annotated[int, Query(ge=1, le=500, description="largest number in the answer")] = 50,
    cursor: Annotated[str | None, Query(max_length=256, description="`next` of the previous page")] = None,
    before: Annotated[
        str | None,
        Query(
            max_length=LONGEST_NAME, description="only flows older than the flow with this id; a cursor takes its place"
        ),
    ] = None,
) -> FlowPage:
    """Return the flows, newest first. With `search`, a page may be short, even empty, and have a next page: the API
    reads at most 1,000 flows for an answer.
    """
    list_name = f"{api.control.context.store.records.uid}:flows:{state}:{family}:{attention}:{search}"
    older_than: str | None = None
    if cursor is not None:
        older_than = read_place(cursor, list_name)
    elif before is not None:
        older_than, _ = api.control.flows.row(before)
    # the oldest flow that the search reads for a page, also without a match: the next page begins after this flow
    end_of_search = None if search is None else api.control.flows.end_of_search(older_than)
    page = api.control.flows.list(
        limit=limit + 1,
        before=older_than,
        states=state or None,
        family=family,
        search=search,
        down_to=end_of_search,
        attention=attention,
    )
    last = page[limit - 1].uid if len(page) > limit else end_of_search
    next_cursor = None if last is None else make_cursor(last, list_name)
    return FlowPage(flows=list(page[:limit]), next=next_cursor)


@router.get(
    "/{flow:path}/jobs",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW_OR_JOB),
)
def list_jobs(
    api: CurrentApi,
    flow: Flow,
    job: Below = [],  # noqa: B006
    state: Annotated[
        list[MemberState], Query(max_length=len(MemberState), description="only jobs in one of these states")
    ] = [],  # noqa: B006
    first: Annotated[int, Query(ge=0, le=1 << 31, description="number of the first job")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="largest number in the answer")] = 100,
) -> MemberPage:
    """Return the jobs of a flow by number."""
    members = api.control.flows.members(flow, job or None, states=state or None)
    page = [member for member in members if member.number >= first]
    return MemberPage(jobs=page[:limit], total=len(members), next=page[limit].number if len(page) > limit else None)


@router.get(
    "/{flow:path}/attempts",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW_OR_JOB),
)
def list_attempts(api: CurrentApi, flow: Flow, job: Job) -> AttemptList:
    """Return the attempts of a job, with the errors of steps and the runs of crawls."""
    return AttemptList(attempts=list(api.control.flows.attempts(flow, job)))


@router.get(
    "/{flow:path}/results",
    dependencies=READING_RESULTS,
    responses=problems(_404=document.NO_FLOW_OR_JOB),
)
def get_results(api: CurrentApi, flow: Flow, job: Below = []) -> Results:  # noqa: B006
    """Return recorded results. Needs the scope `results`, since results are data of the flow's author."""
    if job:
        api.control.flows.members(flow, job)  # NotFound without such a job
    results = api.control.flows.results(flow, job or None)
    content = {"results": untagged(results), "context": untagged(api.control.flows.context(flow))}
    return Results.model_validate(content)


@router.get(
    "/{flow:path}/why",
    dependencies=READING,
    responses=problems(_404=document.NO_FLOW_OR_JOB),
)
def explain_flow(api: CurrentApi, flow: Flow, job: Explained = None) -> Why:
    """Return why a flow, or a job, is in its state, down to the jobs and runs that hold it up.

    Of a flow and of a sub-workflow, the nearest causes are named, failures first. A crawl manager says what the manager
    itself waits for.
    """
    return api.control.flows.why(flow, job or ROOT)


@router.get("/{flow:path}/graph", dependencies=READING, responses=problems(_404=document.NO_FLOW))
def get_graph(
    api: CurrentApi,
    flow: Flow,
    format: Annotated[PictureFormat, Query(description="language of the picture")] = PictureFormat.MERMAID,  # noqa: A002
    states: Annotated[bool, Query(description="with the colours of states, in Mermaid")] = True,
) -> Picture:
    """Return the flow as a picture for Mermaid or Graphviz."""
    return Picture(format=format, graph=picture(api.control.flows.workflow(flow), format, states=states))


@router.get(
    "/{flow:path}/changes",
    dependencies=READING,
    response_class=StreamingResponse,
    responses=CHANGES | problems(_404=document.NO_FLOW),
)
async def follow_flow(api: CurrentApi, caller: Caller, flow: Flow) -> StreamingResponse:
    """Stream the flow's state at every change, until the flow has ended. The first event has all jobs, and a further
    event the changed jobs. A client that reconnects gets all jobs again.
    """
    api.streams.refuse_too_many(caller.name)
    await api.change_readers.run(api.control.flows.row, flow)  # NotFound before the stream begins
    return stream(api, caller, _events(api, flow))


# after the routes above: a flow's id may have slashes, so the path would match their addresses, too
@router.get("/{flow:path}", dependencies=READING, responses=problems(_404=document.NO_FLOW))
def get_flow(api: CurrentApi, flow: Flow) -> FlowView:
    """Return a flow with its counts, its sub-workflows and its timeline."""
    status = api.control.flows.status(flow)  # NotFound without such a flow
    (summary,) = api.control.flows.list(limit=1, ids=[flow])
    # most graphs need no query for managers: `items` has sums once a manager has begun, and a manager's own flow has a
    # single member
    may_have_managers = summary.items is not None or summary.total == 1
    return FlowView(
        flow=summary,
        status=status,
        timeline=list(api.control.flows.lines(flow)),
        managers=list(api.control.flows.managers(flow)) if may_have_managers else [],
        temporal_url=workflow_url(api, flow_workflow_id(summary.uid)),
    )


async def _events(api: FlowsApi, flow: str) -> AsyncIterator[bytes]:
    """Yield the flow's changes, and comments while the flow is quiet."""
    view, silent_passes, has_outage = FollowedFlow(api.control.flows, flow), 0, False
    while True:
        try:
            change = await api.change_readers.run(view.next_change)
            has_outage = False
        except NotFound:  # the flow was pruned
            return
        except LifecycleError as error:  # the stream reports an outage once and continues afterwards
            change = None
            if not has_outage:
                yield event("problem", problem_of(error))
            has_outage = True
        silent_passes = 0 if change else silent_passes + 1
        if change is not None:
            yield event("flow", change)
            if change.is_over:
                return
        if silent_passes >= PAUSES_PER_COMMENT:
            silent_passes = 0
            yield COMMENT
        if await wait_for_closing(api, view.pause):
            return
