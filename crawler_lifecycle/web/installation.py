"""Endpoints for the installation: its use, its runs without room, and what waits for people."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.http.state import READING, ApiState, ForCallers, api_state
from crawler_lifecycle.model.answers import Check, InstallationView
from crawler_lifecycle.runs.commands.runs import RunCommands
from crawler_lifecycle.runs.model import Attention

MOST_SATURATED = 50  # runs in an answer


class PartList(Message):
    parts: list[Check]


class HasInstallation(ForCallers, Protocol):
    runs: RunCommands

    async def attention(self) -> Attention: ...

    async def shared_parts(self) -> list[Check]: ...


CurrentApi = Annotated[ApiState[HasInstallation], Depends(api_state)]
router = APIRouter(prefix="/v1", tags=["limits"])


@router.get("/attention", dependencies=READING)
async def get_attention(api: CurrentApi) -> Attention:
    """Return what waits for a person, a host or room: the page shows the counts at the top of every view."""
    return await api.control.attention()


@router.get("/installation", dependencies=READING)
def get_installation(api: CurrentApi) -> InstallationView:
    """Return the use of the installation's capacity, and the runs for which its cluster has no room."""
    return api.control.runs.installation(MOST_SATURATED)


@router.get("/parts", dependencies=READING)
async def get_parts(api: CurrentApi) -> PartList:
    """Return the health of the database, Temporal, the workers and all shared parts, as in `crawlctl doctor`. Folders
    and accounts belong to a single process and are left out. A result is at most 15 seconds old.
    """
    return PartList(parts=await api.control.shared_parts())
