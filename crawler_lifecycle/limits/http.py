"""Endpoints for limits and pauses."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.http.document import NOT_ACCEPTABLE
from crawler_lifecycle.http.problems import problems
from crawler_lifecycle.http.state import OPERATING, READING, ApiState, ForCallers, api_state, commands
from crawler_lifecycle.limits.commands import LimitCommands
from crawler_lifecycle.model.limits import LimitChange, LimitRecord, PauseRequest, ScopeName


class HasLimits(ForCallers, Protocol):
    limits: LimitCommands


CurrentApi = Annotated[ApiState[HasLimits], Depends(api_state)]
Commands = Annotated[HasLimits, Depends(commands)]
router = APIRouter(prefix="/v1", tags=["limits"])


class LimitList(Message):
    limits: list[LimitRecord] = Field(description="scopes with limits or a pause; the installation comes first")


@router.get("/limits", dependencies=READING)
def list_limits(api: CurrentApi, also: Annotated[ScopeName, Query()]) -> LimitList:
    """Return the limits and pauses of all scopes, with the present use.

    A crawler or label that is named has its use in the answer even without limits.
    """
    return LimitList(limits=list(api.control.limits.all(also.scope)))


@router.put(
    "/limits",
    dependencies=OPERATING,
    responses=problems(_422=NOT_ACCEPTABLE + " Nothing was changed."),
)
def set_limits(commands: Commands, body: LimitChange) -> LimitList:
    """Set or take away limits of a scope. A lower limit ends nothing: new runs and tasks wait.

    A repeated request changes nothing.
    """
    return LimitList(limits=list(commands.limits.change(body)))


@router.post("/limits/pause", dependencies=OPERATING)
def pause_scope(commands: Commands, body: PauseRequest) -> LimitList:
    """Pause a scope: runs are accepted and wait, nothing new is deployed, and jobs in the cluster continue.

    The pause of a paused scope gives the pause another reason.
    """
    return LimitList(limits=list(commands.limits.pause(body)))


@router.post("/limits/resume", dependencies=OPERATING, responses=problems(_404="The scope is not paused."))
def resume_scope(commands: Commands, body: ScopeName) -> LimitList:
    """End the pause of a scope. The body is required, so that only `{}` means the installation."""
    return LimitList(limits=list(commands.limits.resume(body)))
