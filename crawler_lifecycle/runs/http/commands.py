"""Endpoints for commands: start and stop runs, add tasks, resume and export runs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response

from crawler_lifecycle.base.requesters import of_token
from crawler_lifecycle.errors import Conflict, TemporaryError
from crawler_lifecycle.http import document
from crawler_lifecycle.http.problems import problem, problem_with_unknown_result, problems
from crawler_lifecycle.http.state import DOOR, OPERATING, Caller, Run, commands
from crawler_lifecycle.model.answers import Resumed, Started, Stopping
from crawler_lifecycle.model.requests import RunRequest, StopRequest, refusals_as_bad_input
from crawler_lifecycle.runs.http import messages
from crawler_lifecycle.runs.http.runs import CurrentApi, HasRuns

Commands = Annotated[HasRuns, Depends(commands)]
KEY = Header(
    alias="Idempotency-Key",
    min_length=1,
    max_length=255,
    pattern=r"^[!-~]+$",
    description="chosen by the client: repeated requests with the same key act once",
)
OptionalKey = Annotated[str | None, KEY]
RequiredKey = Annotated[str, KEY]

DEFAULT_STOP, DEFAULT_RESUME = messages.StopBody(), messages.ResumeBody()  # for a request without a body
router = APIRouter(prefix="/v1", tags=["commanding"], dependencies=OPERATING)


@router.post(
    "/runs",
    status_code=201,
    response_model=Started,
    responses=document.answer(201, "The run is recorded.")
    | document.answer(200, "An earlier request with this key has made this run.", Started)
    | problems(
        _409="The Idempotency-Key was used for another request.",
        _422=document.NOT_ACCEPTABLE + " Nothing was started.",
    ),
)
async def start_run(
    api: CurrentApi,
    caller: Caller,
    body: messages.StartRequest,
    response: Response,
    key: OptionalKey = None,
) -> Started | Response:
    """Start a run. The answer comes as soon as the run is recorded. Without an answer, repeat with the same key.
    Two requests without a key make two runs. If a run is accepted but not made yet, the 503 names its workflow.
    """
    try:
        started = await api.control.runs.start(run_request(body, caller.name), key)
    except Conflict as error:
        return problem(409, error.message, "Idempotency-Key")
    except TemporaryError as error:
        if key is not None:  # the client may repeat the request, as the header Retry-After says
            raise
        return problem_with_unknown_result(error)
    response.status_code = 201 if started.created else 200
    response.headers["Location"] = f"/v1/runs/{started.run_id}"
    return started


def run_request(body: messages.StartRequest, caller: str) -> RunRequest:
    """Return the request for the run. The token's name stands beside the claimed name."""
    fields = body.model_dump(exclude_unset=True)
    requester = of_token(caller, body.requested_by, DOOR, "requested_by").name
    with refusals_as_bad_input():
        return RunRequest(**fields | {"trigger": body.trigger, "requested_by": requester})


@router.post(
    "/runs/{run}/stop",
    status_code=202,
    responses=document.answer(202, "The stop is recorded.") | problems(_404=document.NO_RUN, _409="The run is over."),
)
async def stop_run(api: CurrentApi, caller: Caller, run: Run, body: messages.StopBody = DEFAULT_STOP) -> Stopping:
    """Stop a run, by force if requested. The run's timeline shows when the stop is confirmed.

    The stop is recorded before the answer. If `not_on_record` is set, the database took no writes: the run's workflow
    received the stop and records it later.
    """
    requester = of_token(caller.name, body.actor, DOOR)
    stop_request = StopRequest(force=body.force, reason=body.reason, actor=requester.name, door=DOOR)
    return await api.control.runs.stop(run, stop_request)


@router.post(
    "/runs/{run}/tasks",
    status_code=201,
    responses=document.answer(201, "The tasks are queued.")
    | problems(_404=document.NO_RUN, _409="The run is over, about to end, or being stopped."),
)
def add_tasks(
    commands: Commands,
    run: Run,
    body: messages.MoreTasks,
    key: RequiredKey,
    response: Response,
) -> messages.TasksAdded:
    """Add tasks to a run under way. Requests with the same key add the tasks once."""
    added = commands.runs.add_tasks(run, body.count, key)
    response.headers["Location"] = f"/v1/runs/{commands.runs.run_id(run)}/tasks?first={added.start}"
    return messages.TasksAdded(first=added.start, count=len(added))


@router.post(
    "/runs/{run}/resume",
    status_code=202,
    responses=document.answer(202, "The run's workflow continues.")
    | problems(_404=document.NO_RUN, _409="There is nothing to resume."),
)
async def resume_run(commands: Commands, run: Run, body: messages.ResumeBody = DEFAULT_RESUME) -> Resumed:
    """Resume the run's workflow, or reopen a FAILED run."""
    return await commands.runs.resume(run, reopen=body.reopen)


@router.post(
    "/runs/{run}/export",
    responses=problems(_404=document.NO_RUN, _409="The run is not over."),
)
async def export_run(commands: Commands, run: Run) -> messages.Exported:
    """Announce the end of a run and archive its files again, under the same ids."""
    return messages.Exported(exports=(await commands.runs.export(run)).exports)
