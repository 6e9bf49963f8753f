"""Endpoints that read: the caller's token, crawlers, runs and tasks."""

from typing import Annotated

from fastapi import APIRouter, Query

from crawler_lifecycle.contract.records import TaskRecord
from crawler_lifecycle.contract.requests import Name
from crawler_lifecycle.contract.states import RunStatus, TaskStatus
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.services.api import messages
from crawler_lifecycle.services.api.cursors import make_cursor, read_cursor
from crawler_lifecycle.services.api.document import (
    CRAWLERS,
    NO_RUN,
    NOT_ACCEPTABLE,
    RUN_PAGE,
    RUN_VIEW,
    TASK,
    TASKS,
    TOKEN,
)
from crawler_lifecycle.services.api.state import BEARER, READING, ApiState, Caller, CurrentApi, Run
from crawler_lifecycle.services.problems import problems

LARGEST_TASK_NUMBER = 10**9  # above every task number, and within the database's integers

router = APIRouter(prefix="/v1", tags=["reading"])


@router.get("/me", dependencies=[BEARER], responses=TOKEN)
def me(token: Caller) -> messages.Caller:
    """Return name and scopes of the token."""
    return messages.Caller(name=token.name, scopes=token.scopes)


@router.get("/crawlers", dependencies=READING, responses=CRAWLERS)
async def crawlers(api: CurrentApi) -> messages.CrawlerList:
    """Return the crawlers' names in the catalogue."""
    names = await api.control.context.scheduler(lambda scheduler: scheduler.crawler_names())
    return messages.CrawlerList(crawlers=names)


@router.get("/runs", dependencies=READING, responses=RUN_PAGE | problems(_422=NOT_ACCEPTABLE))
def runs(
    api: CurrentApi,
    status: Annotated[RunStatus | None, Query(description="only runs with this status")] = None,
    crawler: Annotated[Name | None, Query(description="only runs of this crawler")] = None,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=128, description="only crawlers with this text in their names, in any case"),
    ] = None,
    flows: Annotated[bool, Query(description="runs of flows, too; default: only runs of their own")] = False,
    flow: Annotated[str | None, Query(max_length=128, description="only runs of the flow with this id or uid")] = None,
    tag: Annotated[Name | None, Query(description="only runs with this tag")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="largest number in the answer")] = 50,
    cursor: Annotated[str | None, Query(max_length=128, description="`next` of the previous page")] = None,
) -> messages.RunPage:
    """Return the runs, newest first."""
    # a cursor is valid only for the installation and the filters that made it
    list_name = f"{api.control.context.store.records.installation()}:{status}:{crawler}:{search}"
    list_name += f":{flows}:{flow}:{tag}" if flows or flow or tag else ""
    before = read_cursor(cursor, list_name) if cursor is not None else None
    summaries = api.control.runs.list(
        limit=limit + 1,
        before=before,
        status=status,
        crawler=crawler,
        search=search,
        flows=flows,
        flow=flow,
        tag=tag,
    )
    has_next_page = len(summaries) > limit
    next_cursor = make_cursor(summaries[limit - 1].run_id, list_name) if has_next_page else None
    return messages.RunPage(runs=list(summaries[:limit]), next=next_cursor)


@router.get("/runs/{run}", dependencies=READING, responses=RUN_VIEW | problems(_404=NO_RUN, _422=NOT_ACCEPTABLE))
def run(api: CurrentApi, run: Run) -> messages.RunView:
    """Return a run with its status, its waiting cause and since when, its timeline, its exports and its notices."""
    overview = api.control.runs.overview(run)
    run_id = overview.run.run_id
    first_tasks = api.control.runs.tasks(run_id, limit=1)
    main_task = first_tasks[0].status if first_tasks else None
    return messages.RunView(**dict(overview), main_task=main_task, notices=api.records.notices_of([run_id]))


@router.get(
    "/runs/{run}/tasks",
    dependencies=READING,
    responses=TASKS | problems(_404=NO_RUN, _422=NOT_ACCEPTABLE),
)
def tasks(
    api: CurrentApi,
    run: Run,
    first: Annotated[int, Query(ge=0, le=LARGEST_TASK_NUMBER, description="number of the first task")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="largest number in the answer")] = 100,
    status: Annotated[TaskStatus | None, Query(description="only tasks with this status")] = None,
) -> messages.TaskPage:
    """Return the tasks of a run by number, without their evidence."""
    rows = api.control.runs.tasks(run, first=first, limit=limit + 1, status=status)
    counts = api.control.runs.overview(run).run.tasks
    return messages.TaskPage(
        tasks=list(rows[:limit]),
        total=sum(counts.values()) if status is None else counts.get(status, 0),
        next=rows[limit].task if len(rows) > limit else None,
    )


@router.get(
    "/runs/{run}/tasks/{task}",
    dependencies=READING,
    responses=TASK | problems(_404="There is no such run or task.", _422=NOT_ACCEPTABLE),
)
def task(api: CurrentApi, run: Run, task: int) -> TaskRecord:
    """Return a task with its evidence: message, last log lines, events."""
    return find_task(api, run, task)


def find_task(api: ApiState, run: int | str, number: int) -> TaskRecord:
    """Return the task, or raise NotFound."""
    rows = api.control.runs.tasks(run, first=number, limit=1) if 0 <= number <= LARGEST_TASK_NUMBER else ()
    if not rows or rows[0].task != number:
        raise NotFound(f"run {run} has no task {number}")
    return rows[0]
