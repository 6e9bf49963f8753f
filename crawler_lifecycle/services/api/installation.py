"""Endpoint for the installation as a whole: use of its capacity, and the runs that its cluster has no room for."""

from fastapi import APIRouter

from crawler_lifecycle.contract.answers import InstallationView
from crawler_lifecycle.contract.attention import Attention
from crawler_lifecycle.services.api.state import READING, CurrentApi

MOST_SATURATED = 50  # in an answer

router = APIRouter(prefix="/v1", tags=["limits"])


@router.get("/attention", dependencies=READING)
async def get_attention(api: CurrentApi) -> Attention:
    """Return what waits for a person, a host or room: the page shows the counts at the top of every view."""
    return await api.control.attention()


@router.get("/installation", dependencies=READING)
def get_installation(api: CurrentApi) -> InstallationView:
    """Return the use of the installation's capacity, and the runs for which its cluster has no room."""
    return api.control.runs.installation(MOST_SATURATED)
