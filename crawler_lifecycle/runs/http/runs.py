"""Endpoints that read: the caller's token, crawlers, runs and tasks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol, TypeAlias

from fastapi import APIRouter, Depends, Path, Query
from starlette.concurrency import run_in_threadpool

from crawler_lifecycle.context import ControlContext
from crawler_lifecycle.errors import BadInput, LifecycleError, NotFound
from crawler_lifecycle.http.cursors import make_cursor, read_cursor
from crawler_lifecycle.http.document import NO_RUN, NO_TASK
from crawler_lifecycle.http.problems import problems
from crawler_lifecycle.http.state import BEARER, READING, ApiState, Caller, ForCallers, Run, api_state, workflow_url
from crawler_lifecycle.model.answers import CrawlerEntries
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunCounts, RunDetails, RunFilter, TaskOrder, TaskRecord, without_values
from crawler_lifecycle.model.requests import Moment
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.usage import Usage, UsageBy
from crawler_lifecycle.runs.commands.runs import RunCommands
from crawler_lifecycle.runs.http import messages
from crawler_lifecycle.runs.ports import RunStore


class HasRuns(ForCallers, Protocol):
    runs: RunCommands

    @property
    def context(self) -> ControlContext[RunStore]: ...


RunsApi: TypeAlias = ApiState[HasRuns]
CurrentApi = Annotated[RunsApi, Depends(api_state)]
Chosen = Annotated[RunFilter, Query()]
LARGEST_RUN_ID = 10**18  # within the database's integers
LARGEST_TASK_NUMBER = 10**9  # above every task number, and within the database's integers
CrawlerName = Annotated[str, Path(max_length=128, description="name in the catalogue")]

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/me", dependencies=[BEARER])
def get_token(token: Caller) -> messages.Caller:
    """Return name and scopes of the token."""
    return messages.Caller(name=token.name, scopes=token.scopes)


@router.get("/crawlers", dependencies=READING)
async def list_crawlers(api: CurrentApi) -> messages.CrawlerList:
    """Return the crawlers' names in the catalogue."""
    names = await api.control.context.scheduler(lambda scheduler: scheduler.crawler_names())
    return messages.CrawlerList(crawlers=names)


@router.get("/crawler-entries", dependencies=READING)
async def list_crawler_entries(api: CurrentApi) -> CrawlerEntries:
    """Return the catalogue's entries, with hidden values for environment variables, and the catalogue's problem."""
    context = api.control.context
    entries = await context.scheduler_calls.run(context.parts.deployer.crawlers)
    try:
        await context.scheduler(lambda scheduler: scheduler.check())
        problem = None
    except LifecycleError as error:
        problem = error.message
    return CrawlerEntries(crawlers=[without_values(entry) for entry in entries], problem=problem)


@router.get("/crawler-runs", dependencies=READING)
async def list_crawler_runs(api: CurrentApi) -> messages.CrawlerRunList:
    """Return the latest run and the latest ends of every crawler in the catalogue, with those of flows."""
    names = await api.control.context.scheduler(lambda scheduler: scheduler.crawler_names())
    by_crawler = await api.control.context.database(lambda store: store.records.by_crawler(names))
    return messages.CrawlerRunList(crawlers=by_crawler)


@router.get("/crawlers/{crawler:path}", dependencies=READING, responses=problems(_404="There is no such crawler."))
async def get_crawler(api: CurrentApi, crawler: CrawlerName) -> Crawler:
    """Return a crawler's entry in the catalogue, with hidden values for environment variables."""
    try:
        entry = await api.control.context.scheduler(lambda scheduler: scheduler.crawler(crawler))
    except BadInput as error:  # in a body the name would be a wrong value; a path names a thing
        raise NotFound(error.expected) from error
    return without_values(entry)


@router.get("/runs", dependencies=READING)
async def list_runs(
    api: CurrentApi,
    chosen: Chosen,
    limit: Annotated[int, Query(ge=1, le=500, description="largest number in the answer")] = 50,
    cursor: Annotated[str | None, Query(max_length=128, description="`next` of the previous page")] = None,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST_RUN_ID, description="only runs before this RunID; a cursor takes its place")
    ] = None,
) -> messages.RunPage:
    """Return the runs, newest first.

    Without `since`, lists go back 30 days, unless the only filters are a crawler, a flow, a RunID or statuses of open
    runs. A page may be short, even empty, and have a next page: the API reads at most about 5,000 rows for an answer.
    """
    read = api.searchers.run if chosen.is_search else run_in_threadpool
    return await read(_page, api, chosen, limit, cursor, before)


def _page(api: RunsApi, chosen: RunFilter, limit: int, cursor: str | None, before: int | None) -> messages.RunPage:
    # a cursor is valid only for the installation and the filters that made it
    list_name = f"{api.control.context.store.records.uid}:{chosen.model_dump_json(exclude_defaults=True)}"
    before = read_cursor(cursor, list_name) if cursor is not None else before
    chosen = chosen.in_window(datetime.now(UTC))
    page = api.control.runs.find(chosen, limit=limit, before=before)
    next_cursor = None if page.rest is None else make_cursor(page.rest, list_name)
    return messages.RunPage(runs=page.runs, since=chosen.since, next=next_cursor)


@router.get("/run-counts", dependencies=READING)
async def count_runs(api: CurrentApi, chosen: Chosen) -> RunCounts:
    """Count the runs of `GET /v1/runs` by status. The count for FAILED leaves out stopped runs, and STOPPED counts
    them.
    """
    return await api.searchers.run(api.control.runs.counts, chosen)


@router.get("/usage", dependencies=READING)
async def get_usage(
    api: CurrentApi,
    by: Annotated[UsageBy, Query(description="the runs' property that names their group")] = UsageBy.CRAWLER,
    since: Annotated[
        Moment | None,
        Query(
            description="only runs that ended at this time or later, at most 31 days before `until`; default: 30 days"
        ),
    ] = None,
    until: Annotated[Moment | None, Query(description="only runs that ended before this time; default: now")] = None,
) -> Usage:
    """Sum task seconds, requested CPU and memory, and archived bytes over the runs with an end in the period."""
    return await api.searchers.run(api.control.runs.usage, by, since, until)


@router.get("/runs/{run}", dependencies=READING, responses=problems(_404=NO_RUN))
def get_run(api: CurrentApi, run: Run) -> messages.RunView:
    """Return a run with its status, its waiting cause and since when, its timeline, its exports and its notices."""
    overview = api.control.runs.overview(run)
    run_id = overview.run.run_id
    first_tasks = api.control.runs.tasks(run_id, limit=1)
    main_task = first_tasks[0].status if first_tasks else None
    return messages.RunView(
        **dict(overview),
        main_task=main_task,
        notices=api.control.context.store.records.notices_of([run_id]),
        temporal_url=workflow_url(api, overview.run.workflow_id),
    )


@router.get(
    "/runs/{run}/tasks",
    dependencies=READING,
    responses=problems(_404=NO_RUN),
)
def list_tasks(
    api: CurrentApi,
    run: Run,
    first: Annotated[
        int,
        Query(
            ge=0,
            le=LARGEST_TASK_NUMBER,
            description="number of the first task; in another order than by number, its place from 0 on",
        ),
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="largest number in the answer")] = 100,
    status: Annotated[TaskStatus | None, Query(description="only tasks with this status")] = None,
    sort: Annotated[
        TaskOrder,
        Query(description="order; a minus turns the order around, and tasks without the value come last"),
    ] = TaskOrder.TASK,
) -> messages.TaskPage:
    """Return a page of a run's tasks, sorted over all tasks, without their evidence."""
    rows = api.control.runs.tasks(run, first=first, limit=limit + 1, status=status, order=sort)
    counts = api.control.runs.overview(run).run.tasks
    return messages.TaskPage(
        tasks=list(rows[:limit]),
        total=sum(counts.values()) if status is None else counts.get(status, 0),
        next=_next_page(rows, first, limit, sort),
    )


def _next_page(rows: Sequence[TaskRecord], first: int, limit: int, order: TaskOrder) -> int | None:
    """Return `first` of the next page. `rows` has a task more than the page, unless the page is the last one."""
    if len(rows) <= limit:
        return None
    return rows[limit].task if order is TaskOrder.TASK else first + limit


@router.get(
    "/runs/{run}/tasks/{task}",
    dependencies=READING,
    responses=problems(_404=NO_TASK),
)
def get_task(api: CurrentApi, run: Run, task: int) -> TaskRecord:
    """Return a task with its evidence: message, last log lines, events."""
    return find_task(api, run, task)


def find_task(api: RunsApi, run: int | str, number: int) -> TaskRecord:
    """Return the task, or raise NotFound."""
    rows = api.control.runs.tasks(run, first=number, limit=1) if 0 <= number <= LARGEST_TASK_NUMBER else ()
    if not rows or rows[0].task != number:
        raise NotFound(f"run {run} has no task {number}")
    return rows[0]


@router.get("/runs/{run}/details", dependencies=READING, responses=problems(_404=NO_RUN))
def get_run_details(api: CurrentApi, run: Run) -> RunDetails:
    """Return a run with all its tasks and their evidence. The answer may be large: live pages read the tasks in
    pages.
    """
    return api.control.runs.show(run)
