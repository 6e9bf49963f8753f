"""Endpoints for commands to flows: push, append, cancel, retry, approve, hold, stop."""

import json
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from crawler_lifecycle.base.limits import LONGEST_NAME
from crawler_lifecycle.base.names import Label
from crawler_lifecycle.base.requesters import of_token
from crawler_lifecycle.flows.commands.definitions import read_definition, read_fragment
from crawler_lifecycle.flows.http.flows import CurrentApi, Flow
from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment
from crawler_lifecycle.flows.model.records import FlowAnswer
from crawler_lifecycle.flows.model.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    FlowRequest,
    HoldFlow,
    PushFlow,
    RetryMembers,
    StopFlow,
)
from crawler_lifecycle.http import document
from crawler_lifecycle.http.problems import Responses, problems
from crawler_lifecycle.http.state import DOOR, OPERATING, Actor, Caller
from crawler_lifecycle.http.tokens import Token

Model = TypeVar("Model", bound=FlowRequest)
router = APIRouter(prefix="/v1/flows", tags=["flows"], dependencies=OPERATING)
ALL_JOBS, ALL_FAILED_JOBS, TERMINATE = CancelMembers(), RetryMembers(), StopFlow()


class FlowBody(FlowDefinition):
    """A flow's definition: crawls, approvals, and steps by the names of their functions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)  # `definitions` reads the parts strictly


class AppendBody(FlowRequest):
    """Members to add to an open flow."""

    model_config = ConfigDict(strict=False)
    key: Label = Field(description="chosen by the client: a second request with the same key adds nothing")
    group: Annotated[str, Field(max_length=LONGEST_NAME * 20)] = Field(
        default="", description="path of the sub-workflow that receives the members; empty: the flow's top level"
    )
    fragment: Fragment = Field(description="groups and members, with paths relative to `group`")


def effect(conflict: str, missing: str = document.NO_FLOW_OR_JOB) -> Responses:
    """Return the responses of a command to a flow."""
    return document.answer(202, "The request is recorded.") | problems(_404=missing, _409=conflict)


@router.post(
    "",
    status_code=201,
    response_model=FlowAnswer,
    responses=document.answer(201, "The flow is made.")
    | document.answer(200, "The flow with this id is updated, or was pushed before.", FlowAnswer)
    | problems(
        _409="A job that has started, or the name or context of the flow, would change.",
        _422=document.NOT_ACCEPTABLE + " Nothing was written.",
    ),
)
async def push_flow(
    api: CurrentApi,
    caller: Caller,
    request: Request,
    body: FlowBody,
    response: Response,
    actor: Actor = None,
) -> FlowAnswer:
    """Store a flow, or update the flow with its id. A repeated request changes nothing.

    The whole flow is stored before the answer, or nothing. If `nudged` is false, Temporal did not answer, and the
    flow starts later.
    """
    del body  # checked and described by the framework; the definition is read strictly from the request itself
    definition = read_definition(await request.body())
    answer = await api.control.flows.push(by_caller(PushFlow(definition=definition, actor=actor), caller))
    response.status_code = 201 if answer.created else 200
    response.headers["Location"] = f"/v1/flows/{quote(answer.flow_id)}"
    return answer


@router.post("/{flow:path}/append", status_code=202, responses=effect("The flow has ended, or a name is taken."))
async def append_to_flow(
    api: CurrentApi,
    caller: Caller,
    flow: Flow,
    request: Request,
    body: AppendBody,
) -> FlowAnswer:
    """Add jobs to an open flow, once for the key."""
    content: Any = json.loads(await request.body())
    fragment = read_fragment(json.dumps(content["fragment"]))
    appended = AppendMembers(key=body.key, group=body.group, fragment=fragment, actor=body.actor)
    return await api.control.flows.append(flow, by_caller(appended, caller))


@router.post("/{flow:path}/cancel", status_code=202, responses=effect("The flow does not allow the cancel."))
async def cancel_flow(api: CurrentApi, caller: Caller, flow: Flow, body: CancelMembers = ALL_JOBS) -> FlowAnswer:
    """Cancel open jobs. Jobs that depend on them are cancelled, too, and not counted."""
    return await api.control.flows.change(flow, by_caller(body, caller))


@router.post("/{flow:path}/retry", status_code=202, responses=effect("The flow does not allow the retry."))
async def retry_flow(api: CurrentApi, caller: Caller, flow: Flow, body: RetryMembers = ALL_FAILED_JOBS) -> FlowAnswer:
    """Give cancelled, discarded and retryable jobs another attempt. All other results are kept."""
    return await api.control.flows.change(flow, by_caller(body, caller))


@router.post("/{flow:path}/approve", status_code=202, responses=effect("The approval has ended already."))
async def approve_in_flow(api: CurrentApi, caller: Caller, flow: Flow, body: ApproveMember) -> FlowAnswer:
    """Approve or reject an approval, also before the flow reaches the approval."""
    return await api.control.flows.change(flow, by_caller(body, caller))


@router.post("/{flow:path}/hold", status_code=202, responses=effect("The flow has ended.", document.NO_FLOW))
async def hold_flow(api: CurrentApi, caller: Caller, flow: Flow, body: HoldFlow) -> FlowAnswer:
    """Pause, drain or resume a flow."""
    return await api.control.flows.change(flow, by_caller(body, caller))


@router.post("/{flow:path}/stop", status_code=202, responses=effect("The flow has ended.", document.NO_FLOW))
async def stop_flow(api: CurrentApi, caller: Caller, flow: Flow, body: StopFlow = TERMINATE) -> FlowAnswer:
    """Stop a flow. The end of the flow and of all its runs is the proof that no part of the flow runs any more."""
    return await api.control.flows.stop(flow, by_caller(body, caller))


def by_caller(request: Model, caller: Token) -> Model:
    """Return the request by the token's holder. The token's name stands beside the claimed name."""
    return request.model_copy(update=of_token(caller.name, request.actor, DOOR).record)
