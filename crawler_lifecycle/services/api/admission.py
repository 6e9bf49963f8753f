"""Endpoints for limits, pauses and the installation: its use, its runs without room, and waits for people."""

from fastapi import APIRouter

from crawler_lifecycle.contract.answers import InstallationView
from crawler_lifecycle.contract.attention import Attention
from crawler_lifecycle.contract.limits import LimitChange, PauseRequest, ScopeName
from crawler_lifecycle.services.api import messages
from crawler_lifecycle.services.api.document import NOT_ACCEPTABLE
from crawler_lifecycle.services.api.state import OPERATING, READING, Commands, CurrentApi
from crawler_lifecycle.services.problems import problems

MOST_SATURATED = 50  # runs in an answer

router = APIRouter(prefix="/v1", tags=["limits"])


@router.get("/limits", dependencies=READING)
def list_limits(api: CurrentApi) -> messages.LimitList:
    """Return the limits and pauses of all scopes, with the present use."""
    return messages.LimitList(limits=list(api.control.limits.all()))


@router.put(
    "/limits",
    dependencies=OPERATING,
    responses=problems(_422=NOT_ACCEPTABLE + " Nothing was changed."),
)
def set_limits(commands: Commands, body: LimitChange) -> messages.LimitList:
    """Set or take away limits of a scope. A lower limit ends nothing: new runs and tasks wait.

    A repeated request changes nothing.
    """
    return messages.LimitList(limits=list(commands.limits.change(body)))


@router.post("/limits/pause", dependencies=OPERATING)
def pause_scope(commands: Commands, body: PauseRequest) -> messages.LimitList:
    """Pause a scope: runs are accepted and wait, nothing new is deployed, and jobs in the cluster continue.

    The pause of a paused scope gives the pause another reason.
    """
    return messages.LimitList(limits=list(commands.limits.pause(body)))


@router.post("/limits/resume", dependencies=OPERATING, responses=problems(_404="The scope is not paused."))
def resume_scope(commands: Commands, body: ScopeName) -> messages.LimitList:
    """End the pause of a scope. The body is required, so that only `{}` means the installation."""
    return messages.LimitList(limits=list(commands.limits.resume(body)))


@router.get("/attention", dependencies=READING)
async def get_attention(api: CurrentApi) -> Attention:
    """Return what waits for a person, a host or room: the page shows the counts at the top of every view."""
    return await api.control.attention()


@router.get("/installation", dependencies=READING)
def get_installation(api: CurrentApi) -> InstallationView:
    """Return the use of the installation's capacity, and the runs for which its cluster has no room."""
    return api.control.runs.installation(MOST_SATURATED)
