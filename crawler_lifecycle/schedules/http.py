"""Endpoints for schedules: make, show, pause, resume, trigger, backfill and delete."""

import json
from datetime import UTC, datetime
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from pydantic import Field, JsonValue, field_validator

from crawler_lifecycle.base.base import Message, Request
from crawler_lifecycle.base.requesters import of_token
from crawler_lifecycle.errors import BadInput, NotFound, TemporaryError
from crawler_lifecycle.flows.commands.definitions import read_definition
from crawler_lifecycle.http import document
from crawler_lifecycle.http.problems import problem, problem_with_unknown_result, problems
from crawler_lifecycle.http.state import (
    DOOR,
    OPERATING,
    READING,
    Actor,
    ApiState,
    Caller,
    ForCallers,
    api_state,
    commands,
    commands_of,
)
from crawler_lifecycle.model.requests import RETRIES, Moment, RunParameters, refusals_as_bad_input
from crawler_lifecycle.model.retries import RequestedRetries
from crawler_lifecycle.model.states import Trigger
from crawler_lifecycle.schedules.commands.schedule_commands import ScheduleCommands
from crawler_lifecycle.schedules.model import (
    Backfilled,
    ManagerSchedule,
    OccurrenceOutcome,
    Overlap,
    ScheduleDetails,
    ScheduledManager,
    ScheduleId,
    ScheduleRequest,
    ScheduleRules,
    ScheduleSummary,
    Triggered,
)


class ScheduledRun(RunParameters):
    """Request for the run at every occurrence."""

    model_config = Request.model_config  # refuses unknown fields, as in StartRequest
    trigger: Trigger = Field(default=Trigger.SCHEDULED, strict=False, description="always `scheduled`")
    retries: RequestedRetries | None = Field(default=None, description=RETRIES)

    @field_validator("trigger")
    @classmethod
    def _require_scheduled(cls, trigger: Trigger) -> Trigger:
        if trigger is not Trigger.SCHEDULED:
            raise ValueError("expected scheduled")
        return trigger


class ScheduleBody(ScheduleRules):
    run: ScheduledRun | None = Field(default=None, description="request for the run of each occurrence")
    flow: dict[str, JsonValue] | None = Field(
        default=None,
        description="in place of a run: definition for the flow of each occurrence, as for `POST /v1/flows`",
    )
    manager: ScheduledManager | None = Field(
        default=None,
        description="in place of a run: crawl manager of each occurrence; its flow id is the schedule's name",
    )
    overlap: Overlap = Field(
        default=Overlap.SKIP, strict=False, description="rule while an earlier run of the schedule is open"
    )
    paused: bool = Field(default=False, description="make the schedule paused; an existing schedule keeps its state")


class PauseBody(Request):
    reason: Annotated[str, Field(max_length=256)] | None = Field(default=None, description="reason, for the record")
    actor: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="person or program that asks, for the record, where the token's name stands beside it"
    )


class BackfillBody(Request):
    since: Moment = Field(strict=False, description="from this time on")
    until: Moment | None = Field(default=None, strict=False, description="up to this time; default: now")
    at_once: bool = Field(default=False, description="start all runs at the same time; false: one after another")


class ScheduleList(Message):
    schedules: list[ScheduleSummary]


class Deleted(Message):
    schedule_id: str
    deleted: bool


class HasSchedules(ForCallers, Protocol):
    schedules: ScheduleCommands


CurrentApi = Annotated[ApiState[HasSchedules], Depends(api_state)]
Commands = Annotated[HasSchedules, Depends(commands)]
ScheduleName = Annotated[str, Path(max_length=1000, description="name of the schedule")]
NewScheduleName = Annotated[ScheduleId, Path(description="name of the schedule")]
OnlyNew = Annotated[
    str | None, Header(alias="If-None-Match", pattern=r"^\*$", description="`*`: only if no schedule has this name")
]
NO_PAUSE_BODY = PauseBody()  # for a request without a body

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])


@router.get("", dependencies=READING)
async def list_schedules(api: CurrentApi) -> ScheduleList:
    """Return the schedules by name. A new schedule may take a moment to appear."""
    return ScheduleList(schedules=list(await api.control.schedules.list()))


@router.get(
    "/{schedule}",
    dependencies=READING,
    responses=problems(_404=document.NO_SCHEDULE),
)
async def get_schedule(
    api: CurrentApi,
    schedule: ScheduleName,
    occurrences: Annotated[int, Query(ge=0, le=500, description="number of latest occurrences")] = 10,
    before: Annotated[Moment | None, Query(description="only occurrences before this time, for the next page")] = None,
) -> ScheduleDetails:
    """Return a schedule's rules, next due times and latest occurrences, with the reasons for skips."""
    return await api.control.schedules.show(schedule, occurrences=occurrences, before=before)


@router.put(
    "/{schedule}",
    dependencies=OPERATING,
    response_model=ScheduleDetails,
    responses=document.answer(200, "The schedule has these rules from now on.")
    | document.answer(201, "The schedule is made.", ScheduleDetails)
    | problems(
        _409="The name belongs to a schedule of another application.",
        _412="There is a schedule of this name already, and the request has `If-None-Match: *`.",
        _422=document.NOT_ACCEPTABLE + " Nothing was changed.",
    ),
)
async def put_schedule(
    api: CurrentApi,
    caller: Caller,
    schedule: NewScheduleName,
    body: ScheduleBody,
    response: Response,
    only_new: OnlyNew = None,
    actor: Actor = None,
) -> ScheduleDetails | Response:
    """Make a schedule, or give an existing schedule these rules from now on. A repeated request changes nothing."""
    requester = of_token(caller.name, actor, DOOR)
    request = _schedule_request(schedule, body, caller.name, requester.name)
    schedules = api.control.asked_by(requester).schedules
    try:
        if only_new is None:
            return await schedules.replace(request)
        await schedules.show(schedule, occurrences=0)
        return problem(412, f"there is a schedule {schedule} already")
    except NotFound:  # `replace` and `show` raise NotFound for a new name
        response.status_code = 201
        response.headers["Location"] = f"/v1/schedules/{schedule}"
        return await schedules.create(request)


def _schedule_request(
    schedule: str, body: ScheduleBody, caller: str, requester: str | None
) -> ScheduleRequest | ManagerSchedule:
    """Return the request for the schedule. The token's name stands beside the claimed name."""
    given = body.model_dump(exclude_unset=True, exclude={"run", "flow", "manager"})
    given |= {"overlap": body.overlap, "schedule_id": schedule}
    if body.manager is not None:
        if body.flow is not None or body.run is not None:
            raise BadInput("manager", "either a run, a flow or a manager, and a single one")
        with refusals_as_bad_input():
            return ManagerSchedule(**given, manager=body.manager, requested_by=requester)
    if body.run is not None:
        run = body.run.model_dump(exclude={"trigger"}, exclude_unset=True)
        given["run"] = run | {"requested_by": of_token(caller, body.run.requested_by, DOOR, "run.requested_by").name}
    if body.flow is not None:
        given |= {"flow": read_definition(json.dumps(body.flow)), "requested_by": requester}
    with refusals_as_bad_input():
        return ScheduleRequest(**given)


@router.post(
    "/{schedule}/pause",
    dependencies=OPERATING,
    responses=problems(_404=document.NO_SCHEDULE),
)
async def pause_schedule(
    api: CurrentApi,
    caller: Caller,
    schedule: ScheduleName,
    body: PauseBody = NO_PAUSE_BODY,
) -> ScheduleDetails:
    """Pause a schedule. Runs under way continue."""
    return await commands_of(api, caller, body.actor).schedules.pause(schedule, reason=body.reason)


@router.post(
    "/{schedule}/resume",
    dependencies=OPERATING,
    responses=problems(_404=document.NO_SCHEDULE),
)
async def resume_schedule(
    api: CurrentApi,
    caller: Caller,
    schedule: ScheduleName,
    body: PauseBody = NO_PAUSE_BODY,
) -> ScheduleDetails:
    """Resume a schedule. Occurrences due during the pause stay skipped; a backfill starts such occurrences."""
    return await commands_of(api, caller, body.actor).schedules.resume(schedule, reason=body.reason)


@router.post(
    "/{schedule}/trigger",
    dependencies=OPERATING,
    response_model=Triggered,
    responses=document.answer(
        202,
        "The schedule is triggered, and the outcome is not known yet. A second request would start a second "
        "occurrence.",
        Triggered,
    )
    | problems(_404=document.NO_SCHEDULE),
)
async def trigger_schedule(commands: Commands, schedule: ScheduleName, response: Response) -> Triggered | Response:
    """Start an occurrence now, also of a paused schedule. The overlap policy applies; the answer has the outcome.
    Two requests start two occurrences: without an answer, or after a 503, check first whether the occurrence exists.
    """
    try:
        triggered = await commands.schedules.trigger(schedule)
    except TemporaryError as error:
        return problem_with_unknown_result(error)
    if triggered.outcome is OccurrenceOutcome.ASKED:
        response.status_code = 202
    return triggered


@router.post(
    "/{schedule}/backfill",
    status_code=202,
    dependencies=OPERATING,
    response_model=Backfilled,
    responses=document.answer(202, "The runs are started.")
    | problems(_404=document.NO_SCHEDULE, _422=document.NOT_ACCEPTABLE + " Nothing was started."),
)
async def backfill_schedule(commands: Commands, schedule: ScheduleName, body: BackfillBody) -> Backfilled | Response:
    """Start the occurrences due in a past period, whether they ran or not. A repeated request may start the
    occurrences twice: without an answer, or after a 503, check first whether the runs exist.
    """
    until = body.until or datetime.now(UTC)
    try:
        return await commands.schedules.backfill(schedule, body.since, until, at_once=body.at_once)
    except TemporaryError as error:
        return problem_with_unknown_result(error)


@router.delete(
    "/{schedule}",
    dependencies=OPERATING,
    responses=problems(_404=document.NO_SCHEDULE),
)
async def delete_schedule(commands: Commands, schedule: ScheduleName) -> Deleted:
    """Remove a schedule. Runs under way continue, and earlier runs stay recorded."""
    await commands.schedules.delete(schedule)
    return Deleted(schedule_id=schedule, deleted=True)
