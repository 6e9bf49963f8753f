"""Endpoints for limits and pauses: show, change, pause, resume."""

from fastapi import APIRouter

from crawler_lifecycle.contract.limits import LimitChange, PauseRequest, ScopeName
from crawler_lifecycle.services.api import messages
from crawler_lifecycle.services.api.document import NOT_ACCEPTABLE
from crawler_lifecycle.services.api.state import OPERATING, READING, Commands, CurrentApi
from crawler_lifecycle.services.problems import problems

router = APIRouter(prefix="/v1/limits", tags=["limits"])


@router.get("", dependencies=READING)
def list_limits(api: CurrentApi) -> messages.LimitList:
    """Return the limits and pauses of all scopes, with the present use."""
    return messages.LimitList(limits=list(api.control.limits.all()))


@router.put(
    "",
    dependencies=OPERATING,
    responses=problems(_422=NOT_ACCEPTABLE + " Nothing was changed."),
)
def set_limits(commands: Commands, body: LimitChange) -> messages.LimitList:
    """Set or take away limits of a scope. A lower limit ends nothing: new runs and tasks wait.

    A repeated request changes nothing.
    """
    return messages.LimitList(limits=list(commands.limits.change(body)))


@router.post("/pause", dependencies=OPERATING)
def pause_scope(commands: Commands, body: PauseRequest) -> messages.LimitList:
    """Pause a scope: runs are accepted and wait, nothing new is deployed, and jobs in the cluster continue.

    The pause of a paused scope gives the pause another reason.
    """
    return messages.LimitList(limits=list(commands.limits.pause(body)))


@router.post("/resume", dependencies=OPERATING, responses=problems(_404="The scope is not paused."))
def resume_scope(commands: Commands, body: ScopeName) -> messages.LimitList:
    """End the pause of a scope. The body is required, so that only `{}` means the installation."""
    return messages.LimitList(limits=list(commands.limits.resume(body)))
